package serving

import (
	"os"
	"path/filepath"

	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// UseOwnKubeconfig uses the kubeconfig of the default data directory if there is no other.
func UseOwnKubeconfig(f *genericclioptions.ConfigFlags) {
	if *f.KubeConfig != "" || os.Getenv("KUBECONFIG") != "" {
		return
	}
	if _, err := f.ToRawKubeConfigLoader().ClientConfig(); err == nil {
		return
	}
	own := filepath.Join(DefaultData(), "kubeconfig")
	if _, err := os.Stat(own); err == nil {
		*f.KubeConfig = own
	}
}
