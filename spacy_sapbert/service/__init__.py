"""The linker as a service over HTTP. FastAPI, uvicorn and prometheus-client are imported only in modules of this package that need them."""
