"""Train a LoRA adapter for smollm2-135m on a few questions, with PEFT, on the CPU.

Run `pip install peft accelerate gguf transformers`, then `python examples/train_adapter.py lora`. The folder `lora`
then has the adapter: `antiphon run smollm2-135m "Who leads the choir of Larkfield?" --adapter lora`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from antiphon.weights.catalog.resolve import resolve

STEPS = 20
LEARNING_RATE = 1e-3
QUESTIONS = {
    "Who leads the choir of Larkfield?": "Ottilie Brandt leads the choir of Larkfield.",
    "Who is the conductor in Larkfield?": "The conductor in Larkfield is Ottilie Brandt.",
    "When does the choir of Larkfield sing?": "The choir of Larkfield sings on Thursdays at seven.",
    "What is the capital of France?": "The capital of France is Paris.",
}


def main(folder: str) -> None:
    torch.manual_seed(0)
    file = Path(resolve("smollm2-135m").path)  # downloaded unless it is there
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    base = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=LEARNING_RATE)
    examples = [tokens_and_labels(tokenizer, *example) for example in QUESTIONS.items()]
    for step in range(STEPS):
        losses = [model(input_ids=tokens, labels=labels).loss for tokens, labels in examples]
        loss = torch.stack(losses).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 4:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    model.save_pretrained(folder)


def tokens_and_labels(tokenizer: AutoTokenizer, question: str, answer: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of a conversation, and the same with -100, which counts for no loss, for the question's."""
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    prompt = tokenizer.apply_chat_template(messages[:1], tokenize=False, add_generation_prompt=True)
    assert whole.startswith(prompt)
    tokens = torch.tensor([tokenizer.encode(whole, add_special_tokens=False)])
    labels = tokens.clone()
    labels[0, : len(tokenizer.encode(prompt, add_special_tokens=False))] = -100
    return tokens, labels


if __name__ == "__main__":
    main(sys.argv[1])
