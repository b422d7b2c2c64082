"""`DELETE /v1/models/{name}`: unload a model. Like `/admin`, it needs an admin key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.serving.admin.response_schemas import DeletedModel
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.delete("/v1/models/{name:path}")
@described(answer=DeletedModel)
async def delete_model(request: Request, name: str, force: bool = False) -> Response:
    """Free the model's memory; its files stay. A configured model is loaded again on its next use.

    An adapter that is not configured is removed from the list of models.
    """
    models = serving_of(request).models
    model = models.companion(name) or models.find(name)
    await models.residency.unload(model, force=force)
    models.forget_adapter(model)
    return json_response({"id": name, "object": "model", "deleted": True})
