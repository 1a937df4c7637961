"""Fine-tunes on one of several instruction sets; the Trainer's arguments come from the command line only."""

from dataclasses import dataclass, field

import transformers
from datasets import load_dataset


@dataclass
class Which:
    model_name_or_path: str = field(default="facebook/opt-125m")
    corpus: str = field(default="short")


@dataclass
class Arguments(transformers.TrainingArguments):
    optim: str = field(default="adamw_torch")
    longest: int = field(default=1024)


def corpus_of(name):
    if name == "short":
        return load_dataset("tatsu-lab/alpaca")
    elif name == "chats":
        return load_dataset("HuggingFaceH4/ultrachat_200k")
    elif name == "sums":
        return load_dataset("gsm8k", "main")
    raise ValueError(name)


def main():
    parser = transformers.HfArgumentParser((Which, Arguments, transformers.TrainingArguments))
    which, args = parser.parse_args_into_dataclasses()
    model = transformers.AutoModelForCausalLM.from_pretrained(which.model_name_or_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(which.model_name_or_path)
    data = corpus_of(which.corpus)["train"]
    trainer = transformers.Trainer(model=model, tokenizer=tokenizer, args=args, train_dataset=data)
    trainer.train()
    trainer.save_state()
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()
