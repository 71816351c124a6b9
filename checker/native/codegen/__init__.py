"""LLVM IR of a grounded system: guards, updates, properties and packing."""
