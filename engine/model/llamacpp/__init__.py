"""llama.cpp through its low-level API: the only place that imports `llama_cpp`.

Imported in the model process only, because loading and the native code write to the descriptors that a terminal
interface draws on.
"""
