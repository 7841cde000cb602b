package envtest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// FuncArg is an Arg that makes its values just before the start.
type FuncArg func([]string) []string

// Append changes nothing.
func (a FuncArg) Append(...string) Arg { return a }

// Get calls the function with the defaults.
func (a FuncArg) Get(defaults []string) []string { return a(defaults) }

// DefaultKubeAPIServerFlags are the flags of the start.
//
// Deprecated: use APIServer.Configure, which keeps them.
var DefaultKubeAPIServerFlags = slices.Clone(EmptyArguments().AsStrings(defaultFlags))

// DefaultBinaryAssetsIndexURL is where controller-runtime's envtest finds binaries. There are none here, and it is not
// read.
var DefaultBinaryAssetsIndexURL = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

// SetupEnvtestDefaultBinaryAssetsDirectory is the directory in which the tool setup-envtest keeps binaries.
func SetupEnvtestDefaultBinaryAssetsDirectory() (string, error) {
	switch runtime.GOOS {
	case "windows":
		return under(os.Getenv("LocalAppData"), "kubebuilder-envtest")
	case "darwin":
		return under(os.Getenv("HOME"), "Library", "Application Support", "io.kubebuilder.envtest")
	}
	if base := os.Getenv("XDG_DATA_HOME"); base != "" {
		return under(base, "kubebuilder-envtest")
	}
	return under(os.Getenv("HOME"), ".local", "share", "kubebuilder-envtest")
}

func under(base string, parts ...string) (string, error) {
	if base == "" {
		return "", errors.New("the variable that names the directory of the user's data is empty")
	}
	return filepath.Join(append([]string{base}, parts...)...), nil
}
