/* y = relu(W x) in a planned arena. The header comes from the plan of a graph with the tensors
 * x (int8, 32), h and y (int32, 16); prints a checksum of y. */
#include <stdint.h>
#include <stdio.h>

#include "two_ops.h"

enum { INPUTS = 32, OUTPUTS = 16 };

static TWO_OPS_ARENA_ARRAY(arena);

_Static_assert(TWO_OPS_X_SIZE == INPUTS * sizeof(int8_t), "x has another size in the plan");
_Static_assert(TWO_OPS_H_SIZE == OUTPUTS * sizeof(int32_t), "h has another size in the plan");
_Static_assert(TWO_OPS_H_OFFSET % sizeof(int32_t) == 0, "h is not aligned to its elements");
_Static_assert(TWO_OPS_Y_OFFSET % sizeof(int32_t) == 0, "y is not aligned to its elements");

static int32_t weight(int row, int column) { return (row * 7 + column * 3) % 11 - 5; }

static void dense(const int8_t *x, int32_t *h)
{
    for (int row = 0; row < OUTPUTS; row++) {
        h[row] = 0;
        for (int column = 0; column < INPUTS; column++)
            h[row] += weight(row, column) * x[column];
    }
}

static void relu(const int32_t *h, int32_t *y)
{
    for (int row = 0; row < OUTPUTS; row++)
        y[row] = h[row] > 0 ? h[row] : 0;
}

int main(void)
{
    int8_t *x = (int8_t *)(void *)(arena + TWO_OPS_X_OFFSET);
    int32_t *h = (int32_t *)(void *)(arena + TWO_OPS_H_OFFSET);
    int32_t *y = (int32_t *)(void *)(arena + TWO_OPS_Y_OFFSET);
    for (int column = 0; column < INPUTS; column++)
        x[column] = (int8_t)(column * 13 % 29 - 14);
    dense(x, h);
    relu(h, y);
    long checksum = 0;
    for (int row = 0; row < OUTPUTS; row++)
        checksum += (row + 1L) * y[row];
    printf("%ld\n", checksum);
    return 0;
}
