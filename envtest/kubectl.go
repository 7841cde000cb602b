package envtest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	kubectlVariable = "TEST_ASSET_KUBECTL"
	assetsVariable  = "KUBEBUILDER_ASSETS"
	defaultAssets   = "/usr/local/kubebuilder/bin"
)

// KubeCtl runs the program kubectl.
type KubeCtl struct {
	// Path is where it is. If it is empty, the variable TEST_ASSET_KUBECTL says so, or it is in the directory
	// KUBEBUILDER_ASSETS, in /usr/local/kubebuilder/bin, or where programs are, in this order.
	Path string
	// Opts are flags of all calls.
	Opts []string
}

// Run runs kubectl and returns what it wrote.
func (k *KubeCtl) Run(args ...string) (stdout, stderr io.Reader, err error) {
	if k.Path == "" {
		k.Path = findKubectl()
	}
	var out, messages bytes.Buffer
	c := exec.Command(k.Path, append(append([]string(nil), k.Opts...), args...)...)
	c.Stdout, c.Stderr = &out, &messages
	err = c.Run()
	return &out, &messages, err
}

func findKubectl() string {
	if path := os.Getenv(kubectlVariable); path != "" {
		return path
	}
	directory := os.Getenv(assetsVariable)
	if directory == "" {
		directory = defaultAssets
	}
	path := filepath.Join(directory, "kubectl")
	if _, err := os.Stat(path); err != nil {
		if found, err := exec.LookPath("kubectl"); err == nil {
			return found
		}
	}
	return path
}
