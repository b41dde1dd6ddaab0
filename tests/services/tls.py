"""Certificates made for tests, and the misbehaving server behind TLS."""

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.services.misbehaving import Script, Server

_NOW = datetime.datetime.now(datetime.UTC)


class Authority:
    """A certificate authority in a folder; ``ca`` is the file that clients trust. With ``above`` it is no root."""

    def __init__(self, folder: Path, name: str = "Test authority", above: "Authority | None" = None) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = above or self
        self._certificate = self._signed(self._name, self._key, issuer._name, [], authority=True, signer=issuer._key)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def certificate(self, host: str = "127.0.0.1", *, days: int = 1, self_signed: bool = False) -> Path:
        """A PEM file with key and certificate for ``host``; negative ``days``: expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        issuer = subject if self_signed else self._name
        signed = self._signed(subject, key, issuer, [name], days=days, signer=key if self_signed else self._key)
        path = self._folder / f"{host}-{days}-{self_signed}.pem"
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(pem + signed.public_bytes(serialization.Encoding.PEM))
        return path

    def _signed(self, subject, key, issuer, names, *, days=1, authority=False, signer=None) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_NOW - datetime.timedelta(days=10))
            .not_valid_after(_NOW + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(signer or self._key, hashes.SHA256())


class TlsServer(Server):
    """``names`` are what clients asked for by SNI."""

    def __init__(self, scripts: dict[str, Script], context: ssl.SSLContext) -> None:
        self._context = context
        self.names: list[str | None] = []
        context.sni_callback = lambda sock, name, _: self.names.append(name)
        super().__init__(scripts)
        self.url = f"https://127.0.0.1:{self.port}"

    def _serve(self, sock) -> None:
        try:
            wrapped = self._context.wrap_socket(sock, server_side=True)
        except (ssl.SSLError, OSError):
            sock.close()
            return
        super()._serve(wrapped)


@contextmanager
def serving_tls(scripts: dict[str, Script], certificate: Path, **settings: object) -> Iterator[TlsServer]:
    """``clients``: the authority whose certificates clients must show; ``ciphers``; the rest is set on the context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    clients = settings.pop("clients", None)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(str(clients))
    if "ciphers" in settings:
        context.set_ciphers(str(settings.pop("ciphers")))
    for name, value in settings.items():
        setattr(context, name, value)
    server = TlsServer(scripts, context)
    try:
        yield server
    finally:
        server.close()
