"""A tour of the Python API in ten lines. `make lint` checks that each expression has a type."""

from antiphon import Engine, SamplingParams


def main() -> None:
    messages = [{"role": "user", "content": "Name the capital of France."}]
    with Engine("smollm2-135m", "all-minilm-l6-v2", "whisper-tiny.en", "hibari-6m", kv_bytes=256 << 20) as engine:
        answer = engine.chat(messages, SamplingParams(max_tokens=16))
        print(answer.text, answer.finish_reason, answer.timings.time_to_first_token)
        print(*(delta.text for delta in engine.stream(messages, SamplingParams(stop=".", seed=1))))
        print([each.text for each in engine.generate(["The sea", "The sky"], n=2)])
        speech = engine.speak(answer.text, speed=1.1)
        engine_words = [word.start for chunk in speech for word in chunk.words]
        print(engine.tokenize(answer.text, model="smollm2-135m"), len(engine.embed(answer.text)), engine_words)
        print([word.start for word in engine.transcribe("examples/meeting.m4a", words=True).words])


if __name__ == "__main__":
    main()
