package flags

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
)

// Version is the value of kube-apiserver's --version: "true" prints the version and ends the program, "raw" prints all
// that is known about it. The value that sets the reported version is not supported.
type Version string

const rawVersion Version = "raw"

func (v *Version) Add(fl *pflag.FlagSet) {
	*v = "false"
	fl.Var(v, "version", "print the version and end; --version=raw prints more")
	fl.Lookup("version").NoOptDefVal = "true"
}

// Set implements pflag.Value.
func (v *Version) Set(text string) error {
	if text == string(rawVersion) {
		*v = rawVersion
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err == nil {
		*v = Version(strconv.FormatBool(on))
	}
	return err
}

// String implements pflag.Value.
func (v *Version) String() string { return string(*v) }

// Type implements pflag.Value.
func (v *Version) Type() string { return "version" }

// Print writes the version if the flag asks for it, and reports whether it did.
func (v *Version) Print(out io.Writer) bool {
	switch *v {
	case "true":
		fmt.Fprintf(out, "Kubernetes %s\n", millrace.Version())
	case rawVersion:
		fmt.Fprintf(out, "%#v\n", millrace.Version())
	default:
		return false
	}
	return true
}
