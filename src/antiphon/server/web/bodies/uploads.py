"""Forms with a file: limited in size, a large file on disk, with the same errors as for a JSON body."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from antiphon.server.web.bodies.json_body import record_body, too_large
from antiphon.server.web.bodies.stepped_validation import validation_error
from antiphon.server.web.bodies.unknown_fields import validate_known
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import ApiError, ClientDisconnectedError, invalid

Form = TypeVar("Form", bound=BaseModel)
MAX_FIELDS = 64
MAX_FIELD_BYTES = 1 << 20


async def read_form(request: Request, model: type[Form], limit: int) -> Form:
    """Read the form as an object of the schema, with its `file` open. Raise an `ApiError` if it is invalid."""
    return (await read_file_form(request, model, limit))[0]


async def read_file_form(request: Request, model: type[Form], limit: int) -> tuple[Form, str]:
    """Read the form like `read_form`; also return the file's name, without folders and in printable characters."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        message = f"the content type is {kind[:80] or 'missing'!r}; it must be multipart/form-data"
        raise ApiError(415, message, code="unsupported_media_type")
    parser = MultiPartParser(
        request.headers, _counted(request, limit), max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
    )
    try:
        form = await parser.parse()
    except ClientDisconnect:
        raise ClientDisconnectedError from None
    except MultiPartException as error:
        raise invalid(f"the form cannot be read: {error.message}", code="invalid_form") from None
    except (KeyError, UnicodeDecodeError, ValueError) as error:
        raise invalid(f"the form cannot be read: {type(error).__name__}", code="invalid_form") from None
    try:
        fields = _fields(form, model)
        upload = fields.get("file")
        if not isinstance(upload, UploadFile):
            raise invalid("file is missing, or is not a file", "file", "missing_required_parameter")
        fields["file"] = upload.file
        try:
            body = validate_known(model, fields, context_of(request))
        except ValidationError as error:
            raise validation_error(error) from None
        shown = {name: value for name, value in fields.items() if name != "file"}
        record_body(request, body, shown)
        return body, base_name(upload.filename or "")
    except BaseException:
        close_files(form)
        raise


def base_name(name: str) -> str:
    """Return a file's name without folders of any system, in printable characters; empty for names such as `..`."""
    printable = "".join(character for character in name if character.isprintable())
    last = re.split(r"[/\\]", printable)[-1].strip()
    return last if last.strip(".") else ""


def close_files(form: FormData) -> None:
    for _, value in form.multi_items():
        if isinstance(value, UploadFile):
            value.file.close()


async def _counted(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large(int(declared), limit)
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise too_large(size, limit)
        yield piece


def _fields(form: FormData, model: type[BaseModel]) -> dict[str, Any]:
    """Collect the form's values by name; empty values count as absent.

    Items of a list are called `name[]`, `name[0]` or `name`, and values of an object `name[key]`.
    """
    lists = {field.alias.removesuffix("[]"): field.alias for field in model.model_fields.values() if field.alias}
    fields: dict[str, Any] = {}
    for name, value in form.multi_items():
        if value == "":
            continue
        owner, bracket, key = name.removesuffix("]").partition("[")
        listed = lists.get(owner) if not key or key.isdecimal() else None
        is_in_object = bracket and key and owner in model.model_fields
        if is_in_object and not listed and isinstance(fields.setdefault(owner, {}), dict):
            fields[owner][key] = value
        elif listed is not None:
            fields.setdefault(listed, []).append(value)
        elif name in fields and name in model.model_fields:
            raise invalid(f"{name[:100]} is given twice", name[:100])
        else:
            fields[name] = value
    return fields
