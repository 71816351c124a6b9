"""The search in native code: packed states, generated LLVM IR, the visited set."""
