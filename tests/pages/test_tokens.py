from django.test import Client

from observatory.api.models import Token


def test_a_token_is_shown_once_opens_the_interface_and_is_revoked(user_client: Client) -> None:
    answer = user_client.post("/tokens", {"name": "nightly <b>report</b>"})
    page = answer.content.decode()
    text = page.split('<code id="token">')[1].split("</code>")[0]
    assert "no-store" in answer["Cache-Control"]
    assert "&lt;b&gt;report" in page

    program = Client(headers={"Authorization": f"Bearer {text}"})
    assert program.get("/api/v1/runs").status_code == 200
    assert text not in user_client.get("/tokens").content.decode()

    user_client.post(f"/tokens/{Token.objects.get().pk}/revoke")
    assert program.get("/api/v1/runs").status_code == 401
    assert "revoked" in user_client.get("/tokens").content.decode()


def test_a_token_needs_a_name(user_client: Client) -> None:
    assert "This field is required" in user_client.post("/tokens", {"name": ""}).content.decode()
    assert not Token.objects.exists()
