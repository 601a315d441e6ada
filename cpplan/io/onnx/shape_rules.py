"""The rules for symbolic shapes, by ONNX operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from cpplan.io.onnx import move_shapes as moves
from cpplan.io.onnx import product_shapes as products
from cpplan.io.onnx import window_shapes as windows
from cpplan.io.onnx.facts import Call, Shape

Rule: TypeAlias = Callable[[Call], list[Shape]]

_ELEMENTWISE = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less
    LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor
""".split()  # noqa: SIM905
_LIKE_FIRST = """
    Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitCast BitwiseNot Cast CastLike Ceil Celu
    Clip Cos Cosh CumProd CumSum DequantizeLinear Dropout Elu Erf Exp EyeLike Floor Gelu
    GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN
    LRN LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg Not PRelu
    QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike Reciprocal Relu
    ReverseSequence RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid
    Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh TensorScatter ThresholdedRelu
    Trilu
""".split()  # noqa: SIM905
_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare
""".split()  # noqa: SIM905

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, products.elementwise),
    **dict.fromkeys(_LIKE_FIRST, products.like_first),
    **dict.fromkeys(_REDUCTIONS, products.reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), products.arg_reduction),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), products.recurrence),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), products.matmul),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), products.loss),
    "Attention": products.attention,
    "BatchNormalization": products.batch_norm,
    "Det": products.determinant,
    "DynamicQuantizeLinear": products.quantized,
    "Einsum": products.einsum,
    "Gemm": products.gemm,
    **dict.fromkeys(("LayerNormalization", "SimplifiedLayerNormalization"), products.layer_norm),
    "Multinomial": products.draws,
    "TopK": products.top_k,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), windows.pooling),
    **dict.fromkeys(("Conv", "ConvInteger", "DeformConv", "QLinearConv"), windows.convolution),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), windows.blocks),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), windows.global_pooling),
    **dict.fromkeys(("MaxRoiPool", "RoiAlign"), windows.regions),
    **dict.fromkeys(("Resize", "Upsample"), windows.resize),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), windows.window_function),
    "AffineGrid": windows.affine_grid,
    "Col2Im": windows.columns_to_image,
    "ConvTranspose": windows.transposed_convolution,
    "DFT": windows.fourier,
    "GridSample": windows.sampled_grid,
    "MaxUnpool": windows.unpooling,
    "STFT": windows.short_fourier,
    "CenterCropPad": moves.centred,
    "Concat": moves.concat,
    "ConstantOfShape": moves.filled,
    "Expand": moves.expand,
    "Flatten": moves.flatten,
    "Gather": moves.gather,
    "GatherElements": moves.like_second,
    "GatherND": moves.gather_nd,
    "OneHot": moves.one_hot,
    "Pad": moves.pad,
    "Range": moves.range_,
    "Reshape": moves.reshape,
    "Shape": moves.asked_shape,
    "Size": moves.single,
    "Slice": moves.slice_,
    "Split": moves.split,
    "Squeeze": moves.squeeze,
    "Tile": moves.tile,
    "Transpose": moves.transpose,
    "Unsqueeze": moves.unsqueeze,
}
