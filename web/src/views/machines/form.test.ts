import { describe, expect, it } from "vitest";
import {
  choiceText,
  fieldErrors,
  formFields,
  groupKinds,
  optionHelp,
  optionLabel,
  toRequest,
  type BackendOption,
} from "@/views/machines/form";

const option = (name: string, type: string, secret = false): BackendOption => ({
  name,
  type,
  secret,
  default: null,
  required: false,
  about: "",
  choices: [],
});

const OPTIONS = [
  option("api_key", "a credential", true),
  option("regions", "a list of strings"),
  option("max_machines", "a whole number"),
  option("unattended", "true or false"),
  option("user", "a text"),
];

describe("toRequest", () => {
  it("sends only what was filled in, each value with its type", () => {
    const values = {
      api_key: "k",
      regions: "eu-north, us-east ,",
      max_machines: "3",
      unattended: true,
      user: "",
    };
    expect(toRequest(" cloud ", "lambda", OPTIONS, values)).toEqual({
      name: "cloud",
      kind: "lambda",
      options: { regions: ["eu-north", "us-east"], max_machines: 3, unattended: true },
      credentials: { api_key: "k" },
      replace: false,
    });
  });

  it("leaves a text that is not a number to the server, which says what is wrong", () => {
    expect(toRequest("c", "lambda", OPTIONS, { max_machines: "many" }).options).toEqual({
      max_machines: "many",
    });
  });
});

describe("values with lines and choices", () => {
  const setup = option("setup", "a list of strings");
  const key = option("private_key", "a credential", true);
  const relay = { ...option("relay", "a text"), default: "cluster", choices: ["", "cluster", "storage"] };

  it("keeps the commas of a command and the lines of a key", () => {
    const values = { setup: "module load cuda, nccl\n\nulimit -n 4096", private_key: "-----BEGIN\nx\n" };
    const request = toRequest("lab", "slurm", [setup, key], values);
    expect(request.options).toEqual({ setup: ["module load cuda, nccl", "ulimit -n 4096"] });
    expect(request.credentials).toEqual({ private_key: "-----BEGIN\nx\n" });
    expect(optionHelp({ ...setup, about: "shell commands" })).toBe("Shell commands; one per line");
  });

  it("sends a choice that is not the default, also an empty one", () => {
    const send = (values: Record<string, string>) => toRequest("lab", "slurm", [relay], values).options;
    expect(send({})).toEqual({});
    expect(send({ relay: "cluster" })).toEqual({});
    expect(send({ relay: "" })).toEqual({ relay: "" });
    expect([choiceText(relay, ""), choiceText(relay, "cluster")]).toEqual(["empty", "cluster (default)"]);
  });
});

describe("formFields", () => {
  const names = (options: readonly BackendOption[]) => options.map((each) => each.name);

  it("puts what a cluster needs first, in a fixed order, and the rest behind", () => {
    const options = ["kubeconfig_path", "token", "image", "kubeconfig"].map((name) => option(name, "a text"));
    const { first, more } = formFields({ name: "kubernetes", about: "", options });
    expect(names(first)).toEqual(["kubeconfig", "image"]);
    expect(names(more)).toEqual(["kubeconfig_path", "token"]);
  });

  it("shows a required option of any kind", () => {
    const needed = { ...option("site", "a text"), required: true };
    for (const name of ["ray", "plugin"]) {
      expect(names(formFields({ name, about: "", options: [needed] }).first)).toEqual(["site"]);
    }
  });

  it("groups one's own clusters before clouds", () => {
    const kinds = ["ec2", "ray", "ssh"].map((name) => ({ name, about: "", options: [] }));
    const groups = groupKinds(kinds).map(([, members]) => members.map((kind) => kind.name));
    expect(groups).toEqual([["ssh", "ray"], ["ec2"]]);
  });
});

describe("optionLabel", () => {
  it("writes abbreviations and units as people do", () => {
    const labels = ["api_key", "ssh_port", "lease_s", "memory_gib", "qos", "gpu_kind"].map((name) =>
      optionLabel({ name }),
    );
    expect(labels).toEqual(["API key", "SSH port", "Lease (seconds)", "Memory (GiB)", "QoS", "GPU kind"]);
    expect(optionLabel({ name: "price_microusd_per_hour" })).toBe("Price per hour (micro-dollars)");
  });
});

describe("fieldErrors", () => {
  it("finds the field of an entry of a list", () => {
    expect(fieldErrors([{ place: "options.gpu_prices.0", message: "is not a price" }])).toEqual({
      gpu_prices: "is not a price",
    });
    expect(fieldErrors([{ place: "options", message: "give only one" }])).toEqual({
      options: "give only one",
    });
  });

  it("finds the field of each problem", () => {
    const problems = [
      { place: "options.regions", message: "unknown region", suggestion: "did you mean 'eu-north'?" },
      { place: "name", message: "is taken" },
    ];
    expect(fieldErrors(problems)).toEqual({
      regions: "unknown region: did you mean 'eu-north'?",
      name: "is taken",
    });
  });
});
