"""When may a network be called *the* planted one?

Problem     A small residual is not recovery: with few samples wrong networks fit exactly. The certificates decide
            from the rows between RECOVERED, FITTED and the refusals, and every number behind the decision is put into
            the evidence.
Noiseless   `_exact.certify_noiseless` asks for the following.

            1. Every output of every sample is reproduced to rounding on its own scale, in double precision or on the
               grid on which all labels lie: single precision, few decimals (`_parts`).
            2. A drawn part of the distinct samples gives more equations than there are unknowns, and the Jacobian on
               it has full rank beyond its rounding (`planted.fitting._jacobian`). That part then determines the
               network locally, and the other samples are a test that it has passed. Repeated rows would be no test,
               so they count once.
            3. Every unit is on in at least d + 2 distinct samples and off in at least k + 1: one more than its own
               linear system needs on each side. At its kink the samples leave no gap in which several kinks could
               hide (`_rivals`); with one input every linear piece holds three samples.
            4. A renewed search finds no further ReLU unit in the column space of the outputs.
            5. Where there are enough samples, the uniqueness theorem of `complementarity` holds: its null space has
               dimension k.
Noisy       `_noisy.certify_noisy` asks that the residual look like noise that ignores x. Functions of x, added to
            every output, must not explain more of it than chance would: `_residual` is an F test, and
            `_residual` looks for one unit where there are two. Both statistics grow like n when a unit is missing,
            misplaced or of another kind. Then every unit's kink must be significant and the Jacobian of full rank,
            smooth bends must not explain the data as well as the kinks do (`_smooth_rivals`), no model beside the network
            may explain what it leaves and move its parameters (`_near_models`), two close units in the place of one must be
            less likely (`noise._close_units`), and the variance of the noise must not rise with the slope of the network,
            as it does with noise on the inputs (`noise._law`).
            Standard errors are those of the noise's law: of equal variance, of unequal, or of correlated rows.
Guarantee   Noiseless with (5): EXACT and global. Noiseless without (5): EXACT in the sense of (1) to (4), where local
            uniqueness is proved and global uniqueness is the outcome of a search that found nothing else. Noisy:
            ASYMPTOTIC.
Cost        Two passes over the rows and O((k p)³) algebra, p = d + 1.

Searches that end with a certificate are in `planted.certificates.searches`.
"""
