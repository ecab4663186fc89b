"""The linker as a service over HTTP. FastAPI, uvicorn and prometheus-client are imported only by the modules here that need them."""
