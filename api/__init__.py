"""The faces: command line and REST. One function per question in `api.questions`; a face only translates."""
