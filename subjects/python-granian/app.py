import json


def answer(path):
    match path:
        case "/plaintext":
            return 200, b"text/plain", b"Hello, World!"
        case "/json":
            body = json.dumps({"message": "Hello, World!"}, separators=(",", ":"))
            return 200, b"application/json", body.encode()
        case _:
            return 404, b"text/plain", b"Not Found"


async def app(scope, receive, send):
    assert scope["type"] == "http"
    status, media_type, body = answer(scope["path"])
    headers = [
        (b"content-type", media_type),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    # Over HTTP/2, Granian leaves it to the application that answers to HEAD have no body.
    body = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": body})
