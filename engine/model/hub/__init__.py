"""A hub of models: searching it, and pulling files from it. The one room that imports `huggingface_hub`."""
