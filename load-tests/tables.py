"""Figures as tables of text."""


def table(head, rows):
    widths = [max(len(str(row[column])) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        print(
            "  ".join(
                str(c).ljust(w) if i == 0 else str(c).rjust(w)
                for i, (c, w) in enumerate(zip(row, widths))
            ),
            flush=True,
        )
