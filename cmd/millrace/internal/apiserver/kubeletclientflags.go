package apiserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/cmd/millrace/internal/flags"
)

// kubeletClientFlags configure the API server's connections to kubelets, under kube-apiserver's names.
type kubeletClientFlags struct {
	authorities string
	options     millrace.KubeletOptions
}

func (f *kubeletClientFlags) add(fl *pflag.FlagSet) {
	o := &f.options
	fl.StringVar(&f.authorities, "kubelet-certificate-authority", "", "CA certificates that verify the kubelets' serving certificates (default: they are not verified)")
	fl.StringVar(&o.CertFile, "kubelet-client-certificate", "", "client certificate for kubelets (default: one signed by the cluster's own CA)")
	fl.StringVar(&o.KeyFile, "kubelet-client-key", "", "key of the client certificate for kubelets")
	fl.DurationVar(&o.Timeout, "kubelet-timeout", 5*time.Second, "how long connecting to a kubelet may take")
	fl.StringSliceVar(&o.AddressTypes, "kubelet-preferred-address-types", nil,
		"types of node addresses at which kubelets are called, in order of preference (default: InternalIP,ExternalIP,Hostname,InternalDNS,ExternalDNS)")
}

// check reports flags that do not fit together, and files that cannot be read.
func (f *kubeletClientFlags) check() error {
	o := &f.options
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("--kubelet-client-certificate and --kubelet-client-key belong together: give both or neither")
	}
	if o.Timeout < 0 {
		return fmt.Errorf("--kubelet-timeout %v is less than 0", o.Timeout)
	}
	return flags.Files(map[string]string{
		"kubelet-certificate-authority": f.authorities, "kubelet-client-certificate": o.CertFile, "kubelet-client-key": o.KeyFile,
	})
}
