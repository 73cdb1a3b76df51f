"""Results that neither stub, signature nor docstring of torch states in a form that can be read.

Every group names its source. A condition after ";" reads: when that parameter is given, the result is this instead.
"""

from __future__ import annotations

# kind → (source, names)
_GROUPS: list[tuple[str, str, str]] = [
    (
        "tensor",
        "documentation of each function on pytorch.org, run on torch 2.13 with one tensor argument",
        """
        torch.block_diag torch.cdist torch.chain_matmul torch.norm torch.tensordot
        torch.nn.functional.scaled_dot_product_attention torch.linalg.multi_dot torch.Tensor.norm torch.Tensor.new
        torch.Tensor.stft torch.Tensor.resize torch.Tensor.resize_as torch.Tensor.share_memory_ torch.Tensor.as_subclass
        torch.Tensor.to_sparse_coo torch.Tensor.index
        """,
    ),
    (
        "tensor; as_tuple@1: tuple",
        "torch.nonzero documentation: a tuple of tensors when as_tuple=True",
        "torch.nonzero",
    ),
    ("tensor; as_tuple@0: tuple", "the same for the method", "torch.Tensor.nonzero"),
    (
        "tensor; return_inverse: tuple; return_counts: tuple",
        "torch.unique documentation",
        "torch.unique torch.unique_consecutive torch.Tensor.unique torch.Tensor.unique_consecutive",
    ),
    (
        "tensor; return_indices: tuple[tensor,tensor]",
        "torch/nn/functional.py: boolean_dispatch on return_indices",
        """
        torch.nn.functional.adaptive_max_pool1d torch.nn.functional.adaptive_max_pool2d
        torch.nn.functional.adaptive_max_pool3d torch.nn.functional.fractional_max_pool2d
        torch.nn.functional.fractional_max_pool3d torch.nn.functional.max_pool1d torch.nn.functional.max_pool2d
        torch.nn.functional.max_pool3d
        """,
    ),
    (
        "tuple[tensor,tensor]",
        "torch.linalg documentation",
        "torch.linalg.eig torch.linalg.eigh torch.linalg.qr torch.linalg.slogdet torch.linalg.lu_factor",
    ),
    ("tuple[tensor,tensor,tensor]", "torch.linalg documentation", "torch.linalg.svd torch.linalg.lu"),
    (
        "tensor; tensors@1: tuple",
        "torch.atleast_1d documentation: a tuple for several tensors (run)",
        "torch.atleast_1d torch.atleast_2d torch.atleast_3d",
    ),
    (
        "tuple[tensor,tensor]",
        "torch.linalg documentation (run)",
        "torch.linalg.cholesky_ex torch.linalg.inv_ex torch.linalg.solve_ex torch.lu torch.Tensor.lu",
    ),
    (
        "tuple[tensor,tensor,tensor]",
        "torch.linalg documentation (run)",
        "torch.linalg.ldl_factor_ex torch.linalg.lu_factor_ex",
    ),
    ("tuple[tensor,tensor,tensor,tensor]", "torch.linalg.lstsq documentation (run)", "torch.linalg.lstsq"),
    ("tuple", "torch.split, torch.unbind (run)", "torch.split_copy torch.unbind_copy"),
    ("number", "torch.get_device: the device's index (run)", "torch.get_device"),
    ("tensor", "torch.special.logsumexp documentation (run)", "torch.special.logsumexp"),
    ("tuple", "torch.histogramdd: the histogram and a list of edges (run)", "torch.histogramdd"),
    ("tuple", "torch.Tensor.split, torch.autograd.grad: a tuple of tensors", "torch.Tensor.split torch.autograd.grad"),
    ("tuple", "torch.broadcast_tensors returns a tuple since 2.13 (run)", "torch.broadcast_tensors"),
    ("tuple; dim@0: number", "torch.Tensor.size documentation", "torch.Tensor.size torch.Tensor.stride"),
    ("string; dtype@0: tensor", "torch.Tensor.type: the type's name, or the tensor cast", "torch.Tensor.type"),
    ("bool", "documentation", "torch.is_tensor torch.is_storage torch.is_autocast_enabled torch.Tensor.is_shared"),
    ("none", "torch.Tensor.backward", "torch.Tensor.backward"),
    (
        "module",
        "torch.nn.utils: each returns the module it was given",
        """
        torch.nn.utils.convert_conv2d_weight_memory_format torch.nn.utils.convert_conv3d_weight_memory_format
        torch.nn.utils.fuse_conv_bn_eval torch.nn.utils.fuse_linear_bn_eval torch.nn.utils.remove_spectral_norm
        torch.nn.utils.remove_weight_norm torch.nn.utils.skip_init torch.nn.utils.spectral_norm
        torch.nn.utils.weight_norm torch.nn.utils.parametrizations.weight_norm
        torch.nn.utils.parametrizations.spectral_norm torch.nn.utils.parametrizations.orthogonal
        """,
    ),
    ("module", "torch.hub.load returns what the entry point builds, by contract a model", "torch.hub.load"),
    ("tensor", "torch.nn.utils.clip_grad_norm_: the total norm", "torch.nn.utils.clip_grad_norm_"),
]


def corrections() -> dict[str, str]:
    """Qualified name → kind."""
    return {name: kind for kind, _, names in _GROUPS for name in names.split()}
