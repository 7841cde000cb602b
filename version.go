package millrace

import (
	"runtime"

	"k8s.io/apimachinery/pkg/version"
)

// Version returns the Kubernetes version of the API.
func Version() version.Info {
	return version.Info{
		Major: "1", Minor: "37", GitVersion: "v1.37.0+millrace", GitTreeState: "clean", GoVersion: runtime.Version(),
		Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		EmulationMajor: "1", EmulationMinor: "37", MinCompatibilityMajor: "1", MinCompatibilityMinor: "36",
	}
}
