# trainless on a CPU: a finished design as a server, or any other of its commands.
#
#   docker build -t trainless .
#   docker run --rm -v "$PWD/runs:/home/trainless/runs" trainless trainless demo --out runs/ranked
#   docker run --rm -p 127.0.0.1:8502:8502 -e TRAINLESS_TOKEN=at-least-16-signs -v "$PWD/runs/demo:/model:ro" trainless
#
# The second draws, scores and ranks architectures; the third answers at http://127.0.0.1:8502/?token=at-least-16-signs.
# Behind that address there is no TLS: put a server with it in front. The folder runs has to belong to user 1000.
FROM python:3.11-slim

COPY constraints.txt /source/constraints.txt
RUN pip install --no-cache-dir --constraint /source/constraints.txt \
    --index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple torch

COPY pyproject.toml README.md LICENSE /source/
COPY trainless /source/trainless
RUN pip install --no-cache-dir --constraint /source/constraints.txt "/source[ui,medical]"

RUN useradd --create-home --uid 1000 trainless
USER trainless
WORKDIR /home/trainless

EXPOSE 8502
CMD ["trainless", "serve", "/model", "--host", "0.0.0.0", "--port", "8502", "--device", "cpu"]
