//! Kubernetes objects in protocol buffers, as JSON.
