"""all-MiniLM-L6-v2 as an ONNX graph made from the f32 weights, in f32 and in int8, for ONNX Runtime.

Used where speed counts: as the yardstick of hack/bench/encoder and as the teacher of static-256. minilm.Reference is the same
model, written plainly.
"""
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from minilm import HEADS, HIDDEN, LAYERS, STATE, sequence, weights

OPSET, IR = 20, 9  # Gelu is an operator since opset 20


class Graph:
    """Collects nodes and constants; each method returns the name of its output."""

    def __init__(self, w):
        self.w, self.nodes, self.constants = w, [], {}

    def const(self, name, a):
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(a), name)
        return name

    def op(self, kind, *inputs, **attributes):
        out = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def norm(self, x, key):
        gain, bias = (self.const(f"{key}.{part}", self.w[f"{key}.{part}"]) for part in ("weight", "bias"))
        return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-12)

    def linear(self, x, key):
        y = self.op("MatMul", x, self.const(key + ".weight", self.w[key + ".weight"].T))
        return self.op("Add", y, self.const(key + ".bias", self.w[key + ".bias"]))

    def embeddings(self, ids):
        e, w = "embeddings.", self.w
        words = self.op("Gather", self.const("words", w[e + "word_embeddings.weight"]), ids)
        places = self.const("places", w[e + "position_embeddings.weight"] + w[e + "token_type_embeddings.weight"][0])
        zero, one = self.const("zero", np.array([0])), self.const("one", np.array([1]))
        length = self.op("Gather", self.op("Shape", ids), one, axis=0)
        return self.norm(self.op("Add", words, self.op("Slice", places, zero, length, zero)), e + "LayerNorm")

    def attention(self, x, key):
        split = self.const("split", np.array([0, 0, HEADS, HIDDEN // HEADS]))
        join = self.const("join", np.array([0, 0, HIDDEN]))
        scale = self.const("scale", np.array([(HIDDEN // HEADS) ** -0.5], np.float32))
        heads = lambda name, perm: self.op("Transpose", self.op("Reshape", self.linear(x, key + name), split), perm=perm)
        query, keys, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
        weight = self.op("Softmax", self.op("Mul", self.op("MatMul", query, keys), scale), axis=-1)
        return self.op("Reshape", self.op("Transpose", self.op("MatMul", weight, value), perm=[0, 2, 1, 3]), join)

    def layer(self, x, p):
        y = self.linear(self.attention(x, p + "attention.self."), p + "attention.output.dense")
        x = self.norm(self.op("Add", x, y), p + "attention.output.LayerNorm")
        y = self.linear(self.op("Gelu", self.linear(x, p + "intermediate.dense")), p + "output.dense")
        return self.norm(self.op("Add", x, y), p + "output.LayerNorm")


def model():
    """ids int64 [B, T], of equal lengths and so without padding -> hidden [B, T, 384] and its mean [B, 384]."""
    g = Graph(weights())
    x = g.embeddings("ids")
    for i in range(LAYERS):
        x = g.layer(x, f"encoder.layer.{i}.")
    g.nodes.append(helper.make_node("Identity", [x], ["hidden"]))
    g.nodes.append(helper.make_node("ReduceMean", [x, g.const("axis", np.array([1]))], ["mean"], keepdims=0))
    value = helper.make_tensor_value_info
    outputs = [value("hidden", TensorProto.FLOAT, ["B", "T", HIDDEN]), value("mean", TensorProto.FLOAT, ["B", HIDDEN])]
    graph = helper.make_graph(g.nodes, "minilm", [value("ids", TensorProto.INT64, ["B", "T"])], outputs, list(g.constants.values()))
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    m.ir_version = IR
    return m


def session(kind="f32", threads=2):
    """An ONNX Runtime session of `f32`, or of `int8`: weights per output channel, activations quantised as they come."""
    path = STATE / "minilm.onnx"
    if not path.exists():
        onnx.save(model(), path)
    if kind == "int8":
        small = STATE / "minilm-int8.onnx"
        if not small.exists():
            quantize_dynamic(path, small, op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8)
        path = small
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    options.add_session_config_entry("session.force_spinning_stop", "1")  # idle threads take no time from others
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def embed(s, ids, batch=4096):
    """Token lists without marks -> (n, 384) unit vectors. A batch holds equal lengths, at most `batch` tokens."""
    ids = [sequence(x) for x in ids]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    out, i = np.zeros((len(ids), HIDDEN), np.float32), 0
    while i < len(order):
        n, j = len(ids[order[i]]), i + 1
        while j < len(order) and len(ids[order[j]]) == n and (j + 1 - i) * n <= batch:
            j += 1
        y = s.run(["mean"], {"ids": np.array([ids[k] for k in order[i:j]])})[0]
        out[order[i:j]] = y / np.linalg.norm(y, axis=1, keepdims=True)
        i = j
    return out
