"""Quantization with calibration activations: GPTQ and AWQ.

Both lower ||Wq X - W X|| on calibration inputs rather than ||Wq - W||. The scales of a row or group are those of plain
rounding.
"""

import numpy as np

from observatory.theory.formats import Format, Matrix, Scope, quantized, round_to, scales

_DAMPING = 0.01
_AWQ_STEPS = 20
_AWQ_SAMPLES = 512


def gptq(weights: Matrix, inputs: Matrix, form: Format, scope: Scope, group: int) -> Matrix:
    """Rounds a column at a time and spreads its error over the columns left, weighted by the inverse Hessian.

    ``inputs``: calibration activations, a column a sample (columns of ``weights`` x samples). Source: Frantar et al.
    2022, GPTQ, algorithm 1. Groups take their scale when their first column is reached, from the weights as adjusted.
    """
    hessian = inputs @ inputs.T
    hessian += np.eye(len(hessian)) * max(_DAMPING * float(np.mean(np.diag(hessian))), 1e-12)
    upper = np.linalg.cholesky(np.linalg.inv(hessian)).T
    left, result = weights.copy(), np.zeros_like(weights)
    scale = scales(weights, form, scope, group)
    for column in range(weights.shape[1]):
        if scope is Scope.GROUP and column % group == 0:
            place = slice(column, column + group)
            scale[:, place] = scales(left[:, place], form, Scope.CHANNEL, group)
        current = left[:, column]
        result[:, column] = round_to(current / scale[:, column], form) * scale[:, column]
        error = (current - result[:, column]) / upper[column, column]
        left[:, column + 1 :] -= np.outer(error, upper[column, column + 1 :])
    return result


def awq(weights: Matrix, inputs: Matrix, form: Format, scope: Scope, group: int) -> Matrix:
    """Scales input channels by a power of their mean magnitude before rounding; the power is searched from 0 to 1.

    The first inputs judge each power, plain rounding (power 0) among them. Source: Lin et al. 2023, AWQ, section 3.2
    and equation 5.
    """
    magnitude = np.abs(inputs).mean(axis=1)
    magnitude = np.where(magnitude > 0, magnitude, 1.0)
    tested = inputs[:, :_AWQ_SAMPLES]
    wanted = weights @ tested
    best, best_error = weights, np.inf
    for step in range(_AWQ_STEPS):
        salience = magnitude ** (step / _AWQ_STEPS)
        salience = salience / np.sqrt(salience.max() * salience.min())
        tried = quantized(weights * salience, form, scope, group) / salience
        error = float(np.linalg.norm(tried @ tested - wanted))
        if error < best_error:
            best, best_error = tried, error
    return best
