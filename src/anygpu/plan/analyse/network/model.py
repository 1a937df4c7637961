"""Find the trained model: by its name, by the library call that creates it, or by its class."""

import ast
import re

from anygpu.plan.analyse.code.syntax import CallSite, dotted_name
from anygpu.plan.analyse.code.training_code import KNOWN_PACKAGES, Code, unreachable_calls
from anygpu.plan.analyse.code.values import Value
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, CodeFinding
from anygpu.plan.analyse.network import layer_sizes
from anygpu.plan.hardware import models

_NOT_MODELS = re.compile(
    r"(?i)token|processor|extractor|config|dataset|pipeline\b|scheduler|schedule|vocab|imageproc|generationconfig"
)
_MODEL_NAMES = (
    "model_name_or_path",
    "model_name",
    "model_id",
    "pretrained_model_name_or_path",
    "base_model",
    "arch",
    "model_checkpoint",
    "model_type",
    "checkpoint",
    "backbone",
    "encoder_name",
    "encoder",
    "init_from",
    "model",
    "model.name",
    "weights",
    "cfg",
)
_ESTIMATORS = re.compile(
    r"(XGB|LGBM|CatBoost)\w+|\w*(Classifier|Regressor|Forest|Boosting\w*)|LogisticRegression|LinearRegression|Ridge|"
    r"Lasso|ElasticNet|SVC|SVR|LinearSVC|KMeans|GaussianNB|MultinomialNB|PCA"
)
_HUB = re.compile(r"^[\w.-]+(/[\w.-]+)?$")
_WEIGHT_FILE = re.compile(r"\.(pt|pth|yaml|yml)$")
_LEARNERS = ("vision_learner", "cnn_learner", "unet_learner", "create_cnn_model")
_CLASS_ZOOS = (
    "monai.networks.nets.",
    "torch_geometric.nn.models.",
    "stable_baselines3.P",
    "stable_baselines3.A2C",
    "stable_baselines3.DQN",
    "stable_baselines3.SAC",
    "stable_baselines3.TD3",
    "sb3_contrib.",
)


def find_model_name(code: Code) -> CodeFinding[str] | None:
    for reader in (
        _yolo_model,
        _joined_models,
        _from_pretrained,
        _from_factory,
        _from_zoo,
        _learner,
        _estimator,
        _from_config,
        _own_class,
        _by_setting,
        _hydra_target,
    ):
        finding = reader(code)
        if finding is not None:
            return finding
    return None


def _finding(value: str, setting: Value, confidence: float = SURE) -> CodeFinding[str]:
    sure = min(confidence, setting.confidence)
    return CodeFinding(
        value=value, file=setting.file, line=setting.line, confidence=sure, because=setting.because
    )


def _yolo_model(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls_of("YOLO", "RTDETR", "YOLOWorld", "YOLOE"):
        setting = code.settings.evaluate_text(call.argument("model", position=0))
        stem = (
            re.sub(r"\.(pt|yaml|yml)$", "", str(setting.value).rpartition("/")[2])
            if setting is not None
            else ""
        )
        if setting is not None and stem not in ("", "last", "best"):
            return _finding(stem, setting)
    return None


def _from_pretrained(code: Code) -> CodeFinding[str] | None:
    ranked = sorted(code.facts.calls_of("from_pretrained", "from_config"), key=_trained_last)
    loaded = next((finding for call in ranked if (finding := _loaded_by(code, call))), None)
    if loaded is not None:
        return loaded
    for call in code.facts.calls_of("SentenceTransformer", "FastLanguageModel", "SFTTrainer"):
        setting = code.settings.evaluate_text(call.argument("model_name_or_path", "model", position=0))
        if setting is not None:
            return _finding(str(setting.value), setting)
    outside = [call for call in ranked if call.context.function != "from_pretrained"]
    if outside or code.uses_hf:
        setting = code.settings.find(*_MODEL_NAMES[:7])
        if setting is not None and isinstance(setting.value, str):
            return _finding(setting.value, setting, LIKELY)
    return None


def _loaded_by(code: Code, call: CallSite) -> CodeFinding[str] | None:
    if call.short_name not in ("from_pretrained", "from_config") or _NOT_MODELS.search(call.base):
        return None
    if call.context.function == "from_pretrained" and call.context.owner:
        return None  # a classmethod that loads weights of another model
    setting = code.settings.evaluate_text(
        call.argument("pretrained_model_name_or_path", "model_name", position=0)
    )
    named = setting is not None and setting.value and _is_published(call, str(setting.value))
    return _finding(str(setting.value), setting) if setting is not None and named else None


def _joined_models(code: Code) -> CodeFinding[str] | None:
    """Find a network class in the code that combines several published models; None if there is none."""
    makes = {call.context.owner for call in code.facts.calls}
    for name in sorted(layer_sizes.network_classes(code) & makes):
        if len({part.value for part in published_parts(code, name)}) > 1:
            node, context = code.facts.classes[name]
            return CodeFinding(value=name, file=context.file, line=node.lineno, confidence=LIKELY)
    return None


def published_parts(code: Code, owner: str) -> list[CodeFinding[str]]:
    """Return the published models that the class `owner` creates."""
    made = [_loaded_by(code, c) or _created_by(code, c) for c in code.facts.calls if c.context.owner == owner]
    return [part for part in made if part is not None and models.find_model(part.value) is not None]


def _is_published(call: CallSite, name: str) -> bool:
    """Return whether a call loads a published model.

    A call of a library does. For a class that is defined in the code, `name` must be a known model.
    """
    library = call.base.partition(".")[0] in KNOWN_PACKAGES and "." in call.base
    return library or call.base[:4] in ("Auto", "Flax") or models.find_model(name) is not None


def _trained_last(call: CallSite) -> int:
    """Return a sort key for calls that load models: the trained model is sorted first.

    Scripts for diffusion models also load encoders that they do not train.
    """
    name = call.base.lower()
    if "unet" in name or "transformer2d" in name:
        return 0
    return 2 if re.search(r"autoencoder|vae|textmodel|textencoder", name) else 1


def _from_factory(code: Code) -> CodeFinding[str] | None:
    """Find a model that a library creates by name.

    Examples: `timm.create_model("x")`, `torchvision.models.x()`, `keras.applications.X()`,
    `torch.hub.load(repo, "x")`.
    """
    return next((made for call in code.facts.calls if (made := _created_by(code, call))), None)


def _created_by(code: Code, call: CallSite) -> CodeFinding[str] | None:
    setting: Value | None = None
    if call.short_name in ("create_model", "get_model") and code.imports(
        "timm", "torchvision", "transformers", "open_clip"
    ):
        setting = code.settings.evaluate_text(call.argument("model_name", "name", position=0))
    elif call.name.startswith("torch.hub.load"):
        setting = code.settings.evaluate_text(call.argument("model", position=1))
    elif "[]" in call.name and "models" in call.name:
        setting = code.settings.find("arch", "model", "model_name", "backbone")
    elif (chosen := _chosen_by_name(call)) is not None:
        setting = code.settings.evaluate_text(chosen)
    elif call.name == "getattr" and len(call.node.args) == 2:
        setting = _published_name(code, call.node.args)
    elif _is_zoo_call(call):
        return CodeFinding(value=call.short_name, file=call.file, line=call.line, confidence=SURE)
    elif call.name.startswith("segmentation_models_pytorch."):
        return _segmenter(code, call)
    return (
        _finding(setting.value, setting) if setting is not None and isinstance(setting.value, str) else None
    )


def _published_name(code: Code, words: list[ast.expr]) -> Value | None:
    """Return the model name in `getattr(models, config.model)`; None if no published model has this name."""
    setting = code.settings.evaluate_text(words[1]) if ast.unparse(words[0]).endswith("models") else None
    return setting if setting is not None and models.find_model(str(setting.value)) is not None else None


def _chosen_by_name(call: CallSite) -> ast.expr | None:
    """Return the expression for `name` in `getattr(torchvision.models, name)(...)`; None for other calls."""
    func = call.node.func
    if not isinstance(func, ast.Call) or dotted_name(func.func, {}) != "getattr" or len(func.args) < 2:
        return None
    return func.args[1] if "models" in ast.unparse(func.args[0]) else None


def _is_zoo_call(call: CallSite) -> bool:
    if "()" in call.base:
        return False
    if call.name.startswith(("torchvision.models.", "efficientnet_pytorch.")):
        return call.short_name[:1].islower() and call.short_name not in (
            "list_models",
            "get_weight",
            "get_model_weights",
        )
    if ".applications." in call.name or call.name.startswith("keras_applications."):
        return call.short_name[:1].isupper()
    return call.name.startswith(_CLASS_ZOOS) and call.short_name[:1].isupper()


def _segmenter(code: Code, call: CallSite) -> CodeFinding[str] | None:
    if (
        "()" in call.name
        or not call.short_name[:1].isupper()
        or call.short_name.endswith(("Loss", "Score"))
        or "losses" in call.name
    ):
        return None
    setting = code.settings.evaluate_text(call.argument("encoder_name", position=0))
    name = f"{call.short_name}/{setting.value}" if setting is not None else call.short_name
    return CodeFinding(value=name, file=call.file, line=call.line, confidence=SURE)


def _from_zoo(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls_of("get_config_file", "get_config", "get_cfg"):
        setting = code.settings.evaluate_text(call.argument(position=0))
        if setting is not None and "/" in str(setting.value):
            stem = re.sub(r"\.(yaml|py)$", "", str(setting.value).rpartition("/")[2])
            return _finding(stem, setting)
    base = code.settings.configs.get("_base_") or code.settings.configs.get("model.type")
    if code.imports("mmengine", "mmcv") and base is not None:
        return _finding(str(base.value), base, LIKELY)
    for call in code.facts.calls:
        if call.name.startswith("rfdetr.RFDETR"):
            return CodeFinding(value=call.short_name, file=call.file, line=call.line, confidence=SURE)
    return None


def _learner(code: Code) -> CodeFinding[str] | None:
    for call in code.facts.calls_of(*_LEARNERS):
        node = call.argument("arch", position=1)
        if node is not None:
            name = dotted_name(node, {}).rpartition(".")[2]
            text = code.settings.evaluate_text(node)
            value = str(text.value) if text is not None else name
            return CodeFinding(value=value, file=call.file, line=call.line, confidence=SURE)
    return None


def _estimator(code: Code) -> CodeFinding[str] | None:
    if code.imports("torch", "tensorflow", "keras", "jax", "fastai"):
        return None
    for call in code.facts.calls:
        from_library = call.name.startswith(("sklearn.", "xgboost.", "lightgbm.", "catboost.", "cuml."))
        if from_library and _ESTIMATORS.fullmatch(call.short_name):
            return CodeFinding(value=call.short_name, file=call.file, line=call.line, confidence=SURE)
        if from_library and call.short_name in ("train", "cv"):
            return CodeFinding(
                value=call.name.partition(".")[0], file=call.file, line=call.line, confidence=SURE
            )
    return None


def _from_config(code: Code) -> CodeFinding[str] | None:
    """Find a model class of transformers or diffusers, such as `GPT2LMHeadModel(config)`."""
    for call in code.facts.calls:
        if call.name.startswith("transformers.") and re.search(r"(Model|For\w+)$", call.short_name):
            return CodeFinding(value=call.short_name, file=call.file, line=call.line, confidence=LIKELY)
        if call.name.startswith("diffusers.") and call.short_name.endswith("Model"):
            return CodeFinding(value=call.short_name, file=call.file, line=call.line, confidence=LIKELY)
    return None


def _own_class(code: Code) -> CodeFinding[str] | None:
    """Find the network class of the code that is trained.

    Networks that are only created inside other networks are ignored.
    """
    own = layer_sizes.network_classes(code)
    own -= {name for name in own if ast.unparse(code.facts.classes[name][0].bases[0]).endswith("Layer")}
    aside = {id(call) for call in unreachable_calls(code.facts)}
    calls = (call for call in code.facts.calls if id(call) not in aside)
    uses = [call for call in calls if call.short_name in own and call.context.owner not in own]
    the_model = _model_nodes(code)
    preferred = [c for c in uses if id(c.node) in the_model] or _by_helper(code, uses) or uses
    if preferred:
        call = preferred[0]
        return CodeFinding(value=call.short_name, file=call.file, line=call.line, confidence=LIKELY)
    named = _named_only(code, own)
    if named is not None:
        return named
    elsewhere = _from_elsewhere(code)
    if elsewhere is not None:
        return elsewhere
    built = next((c for c in code.facts.calls_of("Sequential") if not c.context.owner), None)
    functional = next((c for c in code.facts.calls_of("Model") if "keras" in c.name), None)
    if built is not None and (functional is None or id(built.node) in the_model):
        return CodeFinding(value="Sequential", file=built.file, line=built.line, confidence=LIKELY)
    if functional is not None:
        setting = code.settings.evaluate_text(functional.argument("name"))
        name = str(setting.value) if setting is not None else "Model"
        return CodeFinding(value=name, file=functional.file, line=functional.line, confidence=GUESS)
    return None


def _by_helper(code: Code, uses: list[CallSite]) -> list[CallSite]:
    """Return the calls that create a network inside a function of the code, such as the one in `net = resnet18()`."""
    helpers = [code.facts.made_by.get(name, "").rpartition(".")[2] for name in ("model", "net", "network")]
    inside = [use for use in uses if use.context.function and use.context.function in helpers]
    bodies = [code.facts.functions[name][0] for name in helpers if name in code.facts.functions]
    given_back = {id(n.value) for body in bodies for n in ast.walk(body) if isinstance(n, ast.Return)}
    return [use for use in inside if id(use.node) in given_back] or inside


def _named_only(code: Code, own: set[str]) -> CodeFinding[str] | None:
    """Find a network class that the code only names, because a library creates the network.

    Examples: `LightningCLI(Classifier, Data)`, `Net.init(...)`.
    """
    for name in sorted(own):
        node, context = code.facts.classes[name]
        steps = [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "training_step"]
        if steps:
            return CodeFinding(value=name, file=context.file, line=node.lineno, confidence=GUESS)
    handed = (
        call
        for call in code.facts.calls
        if call.base in own and call.short_name.startswith(("init", "create"))
    )
    call = next(handed, None)
    if call is None:
        return None
    return CodeFinding(value=call.base, file=call.file, line=call.line, confidence=GUESS)


def _from_elsewhere(code: Code) -> CodeFinding[str] | None:
    """Find a network class that is not defined in the given files, such as `GPT` in `model = GPT(config)`."""
    for variable in ("model", "net", "network", "netg"):
        made = code.facts.made_by.get(variable, "").rpartition(".")[2]
        call = next(code.facts.calls_of(made), None) if made[:1].isupper() else None
        if call is not None and made not in ("Sequential", "Model", "FSDP", "DDP"):
            return CodeFinding(value=made, file=call.file, line=call.line, confidence=GUESS)
    return None


def _model_nodes(code: Code) -> set[int]:
    """Return the ids of the syntax nodes of all values assigned to variables such as `model` or `net`."""
    names = ("model", "net", "network", "generator", "netg")
    bound = (b.node for name in names for b in code.facts.bindings.get(name, ()))
    return {id(part) for node in bound for part in ast.walk(node)}


def _by_setting(code: Code) -> CodeFinding[str] | None:
    for name in _MODEL_NAMES:
        setting = code.settings.find(name)
        if setting is None or not isinstance(setting.value, str) or not _HUB.match(setting.value):
            continue
        if models.find_model(setting.value) is not None:
            return _finding(re.sub(_WEIGHT_FILE, "", setting.value), setting, LIKELY)
    return None


def _hydra_target(code: Code) -> CodeFinding[str] | None:
    """Find the network class in a Hydra configuration such as `net: {_target_: nets.dense.Dense}`."""
    for section in ("model", "net", "network", "model.net", "backbone"):
        setting = code.settings.configs.get(f"{section}._target_")
        if setting is not None and isinstance(setting.value, str):
            return _finding(setting.value.rpartition(".")[2], setting, GUESS)
    return None
