"""Files of a run: levels and manifests, local or in any file system of Hadoop."""
