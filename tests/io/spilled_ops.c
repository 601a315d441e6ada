/* Five ops on arrays of 64 numbers in two planned arenas, with the moves of the plan between them;
 * prints a checksum of y. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int copied;
#define SPILLED_COPY(to, from, bytes) (copied += (int)(bytes), (void)memcpy((to), (from), (bytes)))
#include "spilled.h"

enum { N = 64 };

static SPILLED_FAST_ARRAY(fast);
static SPILLED_SLOW_ARRAY(slow);

/* Where the plan puts each operand: the test writes these lines from the plan. */
#include "operands.h"

int main(void)
{
    int32_t *x = X_OF_CALLER;
    (void)slow; /* unused if nothing moves */
    for (int k = 0; k < N; k++)
        x[k] = k * 37 % 101 - 50;
    SPILLED_BEFORE_F(fast, slow);
    for (int k = 0; k < N; k++)
        A_OF_F[k] = 3 * X_OF_F[k] + 1;
    SPILLED_BEFORE_G(fast, slow);
    for (int k = 0; k < N; k++)
        B_OF_G[k] = 5 - X_OF_G[k];
    SPILLED_BEFORE_H(fast, slow);
    for (int k = 0; k < N; k++)
        C_OF_H[k] = X_OF_H[k] * X_OF_H[k];
    SPILLED_BEFORE_K(fast, slow);
    for (int k = 0; k < N; k++)
        D_OF_K[k] = B_OF_K[k] + C_OF_K[k];
    SPILLED_BEFORE_M(fast, slow);
    for (int k = 0; k < N; k++)
        Y_OF_M[k] = A_OF_M[k] - D_OF_M[k];
    SPILLED_AFTER_LAST(fast, slow);
    long checksum = 0;
    for (int k = 0; k < N; k++)
        checksum += (k + 1L) * Y_AT_THE_END[k];
    printf("%ld %d\n", checksum, copied);
    return 0;
}
