"""Networks in files: safetensors, ONNX, JSON, PyTorch, scikit-learn, source code."""
