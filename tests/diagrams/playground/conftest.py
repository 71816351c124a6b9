"""The playground's page needs Pyodide, which comes by npm."""

import shutil

collect_ignore = [] if shutil.which("npm") else ["test_page.py"]
