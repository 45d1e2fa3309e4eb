"""Real clients against the server process: the openai package (chat, streaming, tools, errors),
curl, kill -9 and restart, SIGTERM. Called by ctest with the server program, which prints its port.
Exit status 77: the openai package cannot be had here."""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
import venv
from pathlib import Path

SKIPPED = 77
OPENAI = "openai==1.109.1"


def ensure_openai(binary_dir):
    """Runs this file again in a virtual environment with the package, made once a build folder."""
    try:
        import openai  # noqa: F401
        return
    except ImportError:
        if "--in-venv" in sys.argv:
            sys.exit(SKIPPED)
    folder = Path(binary_dir) / "clients-venv"
    python = folder / "bin" / "python3"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = subprocess.run([python, "-m", "pip", "-q", "install", OPENAI], timeout=240)
        if install.returncode != 0:
            print(f"skipped: {OPENAI} cannot be installed here")
            sys.exit(SKIPPED)
        (folder / "complete").touch()
    sys.exit(subprocess.run([python, *sys.argv, "--in-venv"]).returncode)


class Server:
    def __init__(self, program, folder, port=0, delay_us=0):
        self.process = subprocess.Popen(
            [program, folder, str(port), str(delay_us)], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"


def expect(condition, what):
    if not condition:
        print(f"FAILED: {what}")
        sys.exit(1)


def curl(*arguments):
    return subprocess.run(["curl", "-s", "--max-time", "20", *arguments], capture_output=True,
                          text=True).stdout


def check_openai(server):
    import openai
    client = openai.OpenAI(base_url=server.url("/v1"), api_key="unused", max_retries=0)
    expect([m.id for m in client.models.list()] == ["fake"], "models.list")

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    extra = {"ignore_eos": True, "return_token_ids": True}
    whole = client.chat.completions.create(model="fake", messages=messages, max_tokens=24, seed=5,
                                           extra_body=extra)
    expect(whole.choices[0].finish_reason == "length", "finish_reason")
    expect(whole.usage.completion_tokens == 24, "usage")
    stream = client.chat.completions.create(model="fake", messages=messages, max_tokens=24, seed=5,
                                            stream=True, stream_options={"include_usage": True},
                                            extra_body=extra)
    text, usage = "", None
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
        usage = chunk.usage or usage
    expect(text == whole.choices[0].message.content, "the stream adds up to the answer")
    expect(usage.total_tokens == whole.usage.total_tokens, "the stream's usage")

    check_tools(client)

    for call, kind, param in [
        (dict(messages=messages, temperature=9), openai.BadRequestError, "temperature"),
        (dict(messages=[{"role": "boss", "content": "x"}]), openai.BadRequestError,
         "messages[0].role"),
        (dict(messages=messages, model="other"), openai.NotFoundError, "model"),
    ]:
        try:
            client.chat.completions.create(**{"model": "fake", **call})
            expect(False, f"{param} was accepted")
        except kind as error:
            expect(error.param == param, f"the error names {param}, not {error.param}")

    completion = client.completions.create(model="fake", prompt="One two", max_tokens=5, logprobs=2,
                                           temperature=0)
    expect(len(completion.choices[0].logprobs.tokens) == completion.usage.completion_tokens,
           "logprobs of a completion")


def check_tools(client):
    """The model is random, so the call is put into its mouth by teacher forcing: what is judged is
    the way from tokens to tool_calls."""
    tools = [{"type": "function",
              "function": {"name": "get_weather", "description": "Weather of a city.",
                           "parameters": {"type": "object",
                                          "properties": {"city": {"type": "string"}},
                                          "required": ["city"]}}}]
    ask = [{"role": "user", "content": "Weather in Oslo?"}]
    dsml = ('\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n'
            '<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
            '</｜DSML｜invoke>\n</｜DSML｜tool_calls>')
    # The prompt echo gives the ids of a text: the server tokenises, the client needs no tokeniser.
    echo = client.completions.create(model="fake", prompt=dsml, max_tokens=1,
                                     extra_body={"return_token_ids": True})
    ids = echo.choices[0].model_extra["prompt_token_ids"]
    arguments = dict(model="fake", messages=ask, tools=tools, max_tokens=len(ids) + 1,
                     extra_body={"forced_token_ids": ids + [1]})
    answer = client.chat.completions.create(**arguments)
    expect(answer.choices[0].finish_reason == "tool_calls", "finish_reason of a tool call")
    call = answer.choices[0].message.tool_calls[0]
    expect(call.function.name == "get_weather", "the function's name")
    expect(json.loads(call.function.arguments) == {"city": "Oslo"}, "the arguments")
    streamed = ""
    for chunk in client.chat.completions.create(stream=True, **arguments):
        for choice in chunk.choices:
            for part in choice.delta.tool_calls or []:
                streamed += part.function.arguments or ""
    expect(json.loads(streamed) == {"city": "Oslo"}, "the streamed arguments")
    again = ask + [{"role": "assistant", "content": None,
                    "tool_calls": [call.model_dump()]},
                   {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
    client.chat.completions.create(model="fake", messages=again, tools=tools, max_tokens=3)


def check_curl(server):
    expect(json.loads(curl(server.url("/health")))["status"] == "ok", "curl /health")
    body = json.dumps({"prompt": "Hi", "max_tokens": 4, "stream": True, "ignore_eos": True})
    out = curl("-N", "-H", "Content-Type: application/json", "-d", body,
               server.url("/v1/completions"))
    expect(out.strip().endswith("data: [DONE]"), "curl's stream ends with [DONE]")
    large = json.dumps({"prompt": "a " * 1_000_000, "max_tokens": 4})  # makes curl send Expect
    out = subprocess.run(["curl", "-s", "--max-time", "20", "-H", "Content-Type: application/json",
                          "-d", "@-", server.url("/v1/completions")], input=large,
                         capture_output=True, text=True).stdout
    expect(json.loads(out)["error"]["code"] == "context_length_exceeded", "a 2 MB prompt")


def check_kill_and_restart(program, folder):
    server = Server(program, folder, 0, 2000)
    body = json.dumps({"prompt": [300, 301], "max_tokens": 4000, "ignore_eos": True,
                       "stream": True})
    results = []

    def ask():
        run = subprocess.run(["curl", "-s", "-N", "--max-time", "20", "-H",
                              "Content-Type: application/json", "-d", body,
                              server.url("/v1/completions")], capture_output=True, text=True)
        results.append(run)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    time.sleep(0.5)
    server.process.kill()
    server.process.wait()
    for t in threads:
        t.join()
    expect(all(r.returncode != 0 and "[DONE]" not in r.stdout for r in results),
           "clients of a killed server see the connection break, not a complete answer")
    again = Server(program, folder, server.port)  # the same port, at once
    expect(json.loads(curl(again.url("/ready")))["status"] == "ready", "ready after kill -9")
    again.process.send_signal(signal.SIGTERM)
    expect(again.process.wait(timeout=10) == 0, "SIGTERM ends an idle server with 0")


def main():
    program, binary_dir = sys.argv[1], sys.argv[2]
    ensure_openai(binary_dir)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, folder)
        try:
            check_openai(server)
            check_curl(server)
        finally:
            server.process.send_signal(signal.SIGTERM)
        expect(server.process.wait(timeout=10) == 0, "SIGTERM ends the server with 0")
        check_kill_and_restart(program, folder)
    print("openai, curl, kill -9 and restart: passed")


if __name__ == "__main__":
    main()
