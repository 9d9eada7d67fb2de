"""server.py: a llama-server that is started, asked for completions in both of its slots, and ended."""
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

START_LIMIT_S, ANSWER_LIMIT_S = 120, 300


def free_port():
    with socket.socket() as made:
        made.bind(('127.0.0.1', 0))
        return made.getsockname()[1]


def ask(port, path, question=None):
    data = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(f'http://127.0.0.1:{port}{path}', data, {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=ANSWER_LIMIT_S) as answer:
        return json.load(answer)


def wait_until_ready(process, port):
    began = time.monotonic()
    while process.poll() is None and time.monotonic() - began < START_LIMIT_S:
        try:
            ask(port, '/health')
            return True
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    return False


def completions(command, environment, folder, log):
    """The server's exit code and what it answered, a line each: one question after the other, so that each is computed alone."""
    port = free_port()
    process = subprocess.Popen([*command, '--host', '127.0.0.1', '--port', str(port)], env=environment, cwd=folder, stdout=log, stderr=log,
                               stdin=subprocess.DEVNULL)
    answers = []
    try:
        if wait_until_ready(process, port):
            for number in range(6):
                question = {'prompt': 'abc' * (number + 1), 'n_predict': 16, 'temperature': 0, 'seed': 1, 'id_slot': number % 2,
                            'cache_prompt': False}
                answers.append(json.dumps(ask(port, '/completion', question)['content']))
        process.send_signal(signal.SIGINT)
        code = process.wait(ANSWER_LIMIT_S)
    finally:
        process.kill()
    return code, '\n'.join(answers)
