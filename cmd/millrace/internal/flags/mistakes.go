package flags

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Mistake explains an error in the flags of a command, and says where to read more.
func Mistake(c *cobra.Command, err error) error {
	see := "see " + c.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if name := Closest(c.Flags(), unknown.GetSpecifiedName()); name != "" {
			return fmt.Errorf("%w: did you mean --%s? Otherwise %s", err, name, see)
		}
	}
	return fmt.Errorf("%w: %s", Invalid(err), see)
}

// Invalid returns the error of a value that does not fit its flag without the names of Go's functions.
func Invalid(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	why := "not a number"
	switch {
	case errors.Is(number, strconv.ErrRange):
		why = "out of range"
	case number.Func == "ParseBool":
		why = "neither true nor false"
	case number.Func == "ParseInt" || number.Func == "ParseUint" || number.Func == "Atoi":
		why = "not a whole number"
	}
	if number.Num != invalid.GetValue() { // one of a list
		why = fmt.Sprintf("%q is %s", number.Num, why)
	}
	return fmt.Errorf("invalid argument %q for %q flag: %s", invalid.GetValue(), "--"+invalid.GetFlag().Name, why)
}

// Closest returns the name of the visible flag that is most like a text, if one is.
func Closest(fl *pflag.FlagSet, text string) string {
	best, least := "", max(2, len(text)/4)+1
	text = strings.ToLower(strings.ReplaceAll(strings.TrimLeft(text, "-"), "_", "-"))
	fl.VisitAll(func(f *pflag.Flag) {
		if d := distance(text, f.Name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	return best
}

// distance returns how many letters must be added, removed or replaced to make one text from another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = min(before, row[j], row[j+1]) + 1
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
