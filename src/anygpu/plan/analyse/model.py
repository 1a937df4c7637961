"""Which model is trained: by its name, by the library that makes it, or by its own class."""

import ast
import re

from anygpu.plan import models
from anygpu.plan.analyse import layers
from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.facts import Call, dotted
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE, Found
from anygpu.plan.analyse.packages import KNOWN_PACKAGES
from anygpu.plan.analyse.reached import outside
from anygpu.plan.analyse.settings import Value

_NOT_MODELS = re.compile(
    r"(?i)token|processor|extractor|config|dataset|pipeline\b|scheduler|schedule|vocab|imageproc|generationconfig"
)
_NAMES = (
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


def model(code: Code) -> Found[str] | None:
    for reader in (
        _yolo,
        _assembled,
        _pretrained,
        _created,
        _zoo,
        _learner,
        _estimator,
        _from_config,
        _own_class,
        _by_setting,
        _instantiated,
    ):
        found = reader(code)
        if found is not None:
            return found
    return None


def _said(value: str, told: Value, confidence: float = SURE) -> Found[str]:
    sure = min(confidence, told.confidence)
    return Found(value=value, file=told.file, line=told.line, confidence=sure, because=told.because)


def _yolo(code: Code) -> Found[str] | None:
    for call in code.facts.calls_of("YOLO", "RTDETR", "YOLOWorld", "YOLOE"):
        told = code.settings.text(call.argument("model", position=0))
        stem = re.sub(r"\.(pt|yaml|yml)$", "", str(told.value).rpartition("/")[2]) if told is not None else ""
        if told is not None and stem not in ("", "last", "best"):
            return _said(stem, told)
    return None


def _pretrained(code: Code) -> Found[str] | None:
    ranked = sorted(code.facts.calls_of("from_pretrained", "from_config"), key=_trained_last)
    loaded = next((found for call in ranked if (found := _loaded_by(code, call))), None)
    if loaded is not None:
        return loaded
    for call in code.facts.calls_of("SentenceTransformer", "FastLanguageModel", "SFTTrainer"):
        told = code.settings.text(call.argument("model_name_or_path", "model", position=0))
        if told is not None:
            return _said(str(told.value), told)
    outside = [call for call in ranked if call.around.function != "from_pretrained"]
    if outside or code.uses_hf:
        told = code.settings.named(*_NAMES[:7])
        if told is not None and isinstance(told.value, str):
            return _said(told.value, told, LIKELY)
    return None


def _loaded_by(code: Code, call: Call) -> Found[str] | None:
    if call.last not in ("from_pretrained", "from_config") or _NOT_MODELS.search(call.base):
        return None
    if call.around.function == "from_pretrained" and call.around.owner:
        return None  # how a class of the code's own would load another's weights
    told = code.settings.text(call.argument("pretrained_model_name_or_path", "model_name", position=0))
    named = told is not None and told.value and _is_published(call, str(told.value))
    return _said(str(told.value), told) if told is not None and named else None


def _assembled(code: Code) -> Found[str] | None:
    """A class of the code's own that joins several published models is none of them."""
    makes = {call.around.owner for call in code.facts.calls}
    for name in sorted(layers.networks(code) & makes):
        if len({part.value for part in parts(code, name)}) > 1:
            node, around = code.facts.classes[name]
            return Found(value=name, file=around.file, line=node.lineno, confidence=LIKELY)
    return None


def parts(code: Code, owner: str) -> list[Found[str]]:
    """The published models that a class of the code's own makes."""
    made = [_loaded_by(code, c) or _created_by(code, c) for c in code.facts.calls if c.around.owner == owner]
    return [part for part in made if part is not None and models.lookup(part.value) is not None]


def _is_published(call: Call, name: str) -> bool:
    """A library's class loads what it is told; a class of the code's own loads only what is known."""
    library = call.base.partition(".")[0] in KNOWN_PACKAGES and "." in call.base
    return library or call.base[:4] in ("Auto", "Flax") or models.lookup(name) is not None


def _trained_last(call: Call) -> int:
    """A diffusion script loads encoders it does not train: the UNet or transformer counts."""
    name = call.base.lower()
    if "unet" in name or "transformer2d" in name:
        return 0
    return 2 if re.search(r"autoencoder|vae|textmodel|textencoder", name) else 1


def _created(code: Code) -> Found[str] | None:
    """timm.create_model("x"), torchvision.models.x(), keras.applications.X(), torch.hub.load(repo, "x")."""
    return next((made for call in code.facts.calls if (made := _created_by(code, call))), None)


def _created_by(code: Code, call: Call) -> Found[str] | None:
    told: Value | None = None
    if call.last in ("create_model", "get_model") and code.has(
        "timm", "torchvision", "transformers", "open_clip"
    ):
        told = code.settings.text(call.argument("model_name", "name", position=0))
    elif call.name.startswith("torch.hub.load"):
        told = code.settings.text(call.argument("model", position=1))
    elif "[]" in call.name and "models" in call.name:
        told = code.settings.named("arch", "model", "model_name", "backbone")
    elif (chosen := _chosen_by_name(call)) is not None:
        told = code.settings.text(chosen)
    elif call.name == "getattr" and len(call.node.args) == 2:
        told = _known(code, call.node.args)
    elif _is_zoo_call(call):
        return Found(value=call.last, file=call.file, line=call.line, confidence=SURE)
    elif call.name.startswith("segmentation_models_pytorch."):
        return _segmenter(code, call)
    return _said(told.value, told) if told is not None and isinstance(told.value, str) else None


def _known(code: Code, words: list[ast.expr]) -> Value | None:
    """build = getattr(models, config.model): of a module of the code's own, a name that is published."""
    told = code.settings.text(words[1]) if ast.unparse(words[0]).endswith("models") else None
    return told if told is not None and models.lookup(str(told.value)) is not None else None


def _chosen_by_name(call: Call) -> ast.expr | None:
    """getattr(torchvision.models, name)(...)."""
    func = call.node.func
    if not isinstance(func, ast.Call) or dotted(func.func, {}) != "getattr" or len(func.args) < 2:
        return None
    return func.args[1] if "models" in ast.unparse(func.args[0]) else None


def _is_zoo_call(call: Call) -> bool:
    if "()" in call.base:
        return False
    if call.name.startswith(("torchvision.models.", "efficientnet_pytorch.")):
        return call.last[:1].islower() and call.last not in ("list_models", "get_weight", "get_model_weights")
    if ".applications." in call.name or call.name.startswith("keras_applications."):
        return call.last[:1].isupper()
    return call.name.startswith(_CLASS_ZOOS) and call.last[:1].isupper()


def _segmenter(code: Code, call: Call) -> Found[str] | None:
    if (
        "()" in call.name
        or not call.last[:1].isupper()
        or call.last.endswith(("Loss", "Score"))
        or "losses" in call.name
    ):
        return None
    told = code.settings.text(call.argument("encoder_name", position=0))
    name = f"{call.last}/{told.value}" if told is not None else call.last
    return Found(value=name, file=call.file, line=call.line, confidence=SURE)


def _zoo(code: Code) -> Found[str] | None:
    for call in code.facts.calls_of("get_config_file", "get_config", "get_cfg"):
        told = code.settings.text(call.argument(position=0))
        if told is not None and "/" in str(told.value):
            stem = re.sub(r"\.(yaml|py)$", "", str(told.value).rpartition("/")[2])
            return _said(stem, told)
    base = code.settings.configs.get("_base_") or code.settings.configs.get("model.type")
    if code.has("mmengine", "mmcv") and base is not None:
        return _said(str(base.value), base, LIKELY)
    for call in code.facts.calls:
        if call.name.startswith("rfdetr.RFDETR"):
            return Found(value=call.last, file=call.file, line=call.line, confidence=SURE)
    return None


def _learner(code: Code) -> Found[str] | None:
    for call in code.facts.calls_of(*_LEARNERS):
        node = call.argument("arch", position=1)
        if node is not None:
            name = dotted(node, {}).rpartition(".")[2]
            text = code.settings.text(node)
            value = str(text.value) if text is not None else name
            return Found(value=value, file=call.file, line=call.line, confidence=SURE)
    return None


def _estimator(code: Code) -> Found[str] | None:
    if code.has("torch", "tensorflow", "keras", "jax", "fastai"):
        return None
    for call in code.facts.calls:
        from_library = call.name.startswith(("sklearn.", "xgboost.", "lightgbm.", "catboost.", "cuml."))
        if from_library and _ESTIMATORS.fullmatch(call.last):
            return Found(value=call.last, file=call.file, line=call.line, confidence=SURE)
        if from_library and call.last in ("train", "cv"):
            return Found(value=call.name.partition(".")[0], file=call.file, line=call.line, confidence=SURE)
    return None


def _from_config(code: Code) -> Found[str] | None:
    """transformers' GPT2LMHeadModel(config): the class, its size from the configuration."""
    for call in code.facts.calls:
        if call.name.startswith("transformers.") and re.search(r"(Model|For\w+)$", call.last):
            return Found(value=call.last, file=call.file, line=call.line, confidence=LIKELY)
        if call.name.startswith("diffusers.") and call.last.endswith("Model"):
            return Found(value=call.last, file=call.file, line=call.line, confidence=LIKELY)
    return None


def _own_class(code: Code) -> Found[str] | None:
    """A network written in the code: the class that is instantiated last among its own kind."""
    own = layers.networks(code)
    own -= {name for name in own if ast.unparse(code.facts.classes[name][0].bases[0]).endswith("Layer")}
    aside = {id(call) for call in outside(code.facts)}
    calls = (call for call in code.facts.calls if id(call) not in aside)
    uses = [call for call in calls if call.last in own and call.around.owner not in own]
    the_model = _the_model(code)
    preferred = [c for c in uses if id(c.node) in the_model] or _by_helper(code, uses) or uses
    if preferred:
        call = preferred[0]
        return Found(value=call.last, file=call.file, line=call.line, confidence=LIKELY)
    named = _named_only(code, own)
    if named is not None:
        return named
    elsewhere = _from_elsewhere(code)
    if elsewhere is not None:
        return elsewhere
    built = next((c for c in code.facts.calls_of("Sequential") if not c.around.owner), None)
    functional = next((c for c in code.facts.calls_of("Model") if "keras" in c.name), None)
    if built is not None and (functional is None or id(built.node) in the_model):
        return Found(value="Sequential", file=built.file, line=built.line, confidence=LIKELY)
    if functional is not None:
        told = code.settings.text(functional.argument("name"))
        name = str(told.value) if told is not None else "Model"
        return Found(value=name, file=functional.file, line=functional.line, confidence=GUESS)
    return None


def _by_helper(code: Code, uses: list[Call]) -> list[Call]:
    """net = resnet18(), a function of the code that returns one of its networks."""
    helpers = [code.facts.made_by.get(name, "").rpartition(".")[2] for name in ("model", "net", "network")]
    inside = [use for use in uses if use.around.function and use.around.function in helpers]
    bodies = [code.facts.functions[name][0] for name in helpers if name in code.facts.functions]
    given_back = {id(n.value) for body in bodies for n in ast.walk(body) if isinstance(n, ast.Return)}
    return [use for use in inside if id(use.node) in given_back] or inside


def _named_only(code: Code, own: set[str]) -> Found[str] | None:
    """LightningCLI(Classifier, Data) and Net.init(...) make it themselves."""
    for name in sorted(own):
        node, around = code.facts.classes[name]
        steps = [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "training_step"]
        if steps:
            return Found(value=name, file=around.file, line=node.lineno, confidence=GUESS)
    handed = (
        call for call in code.facts.calls if call.base in own and call.last.startswith(("init", "create"))
    )
    call = next(handed, None)
    if call is None:
        return None
    return Found(value=call.base, file=call.file, line=call.line, confidence=GUESS)


def _from_elsewhere(code: Code) -> Found[str] | None:
    """model = GPT(config), the class in a file that was not given."""
    for variable in ("model", "net", "network", "netg"):
        made = code.facts.made_by.get(variable, "").rpartition(".")[2]
        call = next(code.facts.calls_of(made), None) if made[:1].isupper() else None
        if call is not None and made not in ("Sequential", "Model", "FSDP", "DDP"):
            return Found(value=made, file=call.file, line=call.line, confidence=GUESS)
    return None


def _the_model(code: Code) -> set[int]:
    """The identities of what stands in the value of a variable that has the model's name."""
    names = ("model", "net", "network", "generator", "netg")
    bound = (b.node for name in names for b in code.facts.assigned.get(name, ()))
    return {id(part) for node in bound for part in ast.walk(node)}


def _by_setting(code: Code) -> Found[str] | None:
    for name in _NAMES:
        told = code.settings.named(name)
        if told is None or not isinstance(told.value, str) or not _HUB.match(told.value):
            continue
        if models.lookup(told.value) is not None:
            return _said(re.sub(_WEIGHT_FILE, "", told.value), told, LIKELY)
    return None


def _instantiated(code: Code) -> Found[str] | None:
    """hydra makes what its configuration names: `net: {_target_: nets.dense.Dense}`."""
    for section in ("model", "net", "network", "model.net", "backbone"):
        told = code.settings.configs.get(f"{section}._target_")
        if told is not None and isinstance(told.value, str):
            return _said(told.value.rpartition(".")[2], told, GUESS)
    return None
