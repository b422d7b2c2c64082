"""Tools of a request: the client's own, and Anthropic's predefined tools that the client runs."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from antiphon.server.generation.parameters.messages import FunctionName
from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.web.http.schemas import Body
from antiphon.server.web.http.text_only import TEXT_ONLY

CacheControl = dict[str, Any]
VERSION = re.compile(r"_\d{8}$")
#: Reasons for rejecting tools, by type without its version.
HOSTED = "runs in Anthropic's service and is not available here; give the model a tool of your own"
REJECTED = {
    **dict.fromkeys(("web_search", "web_fetch", "code_execution", "advisor"), HOSTED),
    **dict.fromkeys(("tool_search_tool_regex", "tool_search_tool_bm25", "mcp_toolset"), HOSTED),
    "computer": f"answers with images, and {TEXT_ONLY}",
}


class AnyTool(Body):
    cache_control: CacheControl | None = None
    strict: bool | None = None
    #: Accepted without effect.
    allowed_callers: list[str] | None = None
    defer_loading: bool | None = None
    eager_input_streaming: bool | None = None
    input_examples: list[dict[str, Any]] | None = None


class OwnTool(AnyTool):
    name: FunctionName
    input_schema: JsonSchema
    type: Literal["custom"] | None = None
    description: str | None = None


def _schema(required: list[str], **properties: Any) -> JsonSchema:
    return {"type": "object", "properties": properties, "required": required}


def _text(description: str) -> JsonSchema:
    return {"type": "string", "description": description}


def _line(description: str) -> JsonSchema:
    return {"type": "integer", "description": description}


EDITS = {
    "path": _text("Absolute path to the file or directory."),
    "file_text": _text("For create: the content of the new file."),
    "old_str": _text("For str_replace: the text to replace, which occurs once in the file."),
    "new_str": _text("For str_replace: the new text."),
    "insert_line": _line("For insert: the line after which the text is inserted; 0 is the beginning."),
    "insert_text": _text("For insert: the text to insert."),
    "view_range": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "For view: the first and the last line to show, from 1; -1 is the end of the file.",
    },
}


def _command(*names: str) -> JsonSchema:
    return {"type": "string", "enum": list(names)}


class BashTool(AnyTool):
    description: ClassVar[str] = "Run commands in a bash shell that keeps its state between calls."
    input_schema: ClassVar[JsonSchema] = _schema(
        [],
        command=_text("The command to run. Required unless restart is true."),
        restart={"type": "boolean", "description": "Restart the shell."},
    )

    type: Literal["bash_20241022", "bash_20250124"]
    name: Literal["bash"]


class TextEditorTool(AnyTool):
    description: ClassVar[str] = "View, create and edit text files."
    input_schema: ClassVar[JsonSchema] = _schema(
        ["command", "path"], command=_command("view", "create", "str_replace", "insert"), **EDITS
    )

    type: Literal["text_editor_20250429", "text_editor_20250728"]
    name: Literal["str_replace_based_edit_tool"]
    #: Accepted without effect: the client cuts what it shows.
    max_characters: Annotated[int, Field(ge=1)] | None = None


class OldTextEditorTool(AnyTool):
    """Former text editor tool, whose `insert` reads the text from `new_str`."""

    description: ClassVar[str] = "View, create and edit text files, and undo edits."
    input_schema: ClassVar[JsonSchema] = _schema(
        ["command", "path"],
        command=_command("view", "create", "str_replace", "insert", "undo_edit"),
        **{name: value for name, value in EDITS.items() if name != "insert_text"}
        | {"new_str": _text("For str_replace: the new text. For insert: the text to insert.")},
    )

    type: Literal["text_editor_20241022", "text_editor_20250124"]
    name: Literal["str_replace_editor"]


class MemoryTool(AnyTool):
    description: ClassVar[str] = "Read and write files under /memories, which are kept between conversations."
    input_schema: ClassVar[JsonSchema] = _schema(
        ["command"],
        command=_command("view", "create", "str_replace", "insert", "delete", "rename"),
        **EDITS,
        old_path=_text("For rename: the present path."),
        new_path=_text("For rename: the new path."),
    )

    type: Literal["memory_20250818"]
    name: Literal["memory"]


KINDS = {"bash": "bash", "memory": "memory", "text_editor": "editor"}
OLD_EDITORS = ("text_editor_20241022", "text_editor_20250124")


def _kind(tool: Any) -> str:
    given = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    if given in OLD_EDITORS:
        return "old_editor"
    return KINDS.get(VERSION.sub("", given), "own") if isinstance(given, str) else "own"


def _check_type(tool: Any) -> Any:
    given = tool.get("type") if isinstance(tool, dict) else None
    family = VERSION.sub("", given) if isinstance(given, str) else None
    if family in REJECTED:
        raise PydanticCustomError("unsupported_tool", f"the tool {family} {REJECTED[family]}")
    return tool


ClientTool = Annotated[
    Annotated[OwnTool, Tag("own")]
    | Annotated[BashTool, Tag("bash")]
    | Annotated[TextEditorTool, Tag("editor")]
    | Annotated[OldTextEditorTool, Tag("old_editor")]
    | Annotated[MemoryTool, Tag("memory")],
    Discriminator(_kind),
    BeforeValidator(_check_type),
]
