package controllers

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/millrace/millrace/internal/controllers/certificates"
)

// signingFlags configure the CAs that sign certificates, under kube-controller-manager's names.
type signingFlags struct {
	all      pairFlags
	single   []pairFlags
	duration time.Duration
}

// pairFlags name the certificate and the key of one CA.
type pairFlags struct{ flag, signer, certificate, key string }

func (f *signingFlags) add(c *cobra.Command) {
	f.all.flag = "cluster-signing"
	f.single = []pairFlags{
		{flag: "cluster-signing-kube-apiserver-client", signer: certificatesv1.KubeAPIServerClientSignerName},
		{flag: "cluster-signing-kubelet-client", signer: certificatesv1.KubeAPIServerClientKubeletSignerName},
		{flag: "cluster-signing-kubelet-serving", signer: certificatesv1.KubeletServingSignerName},
		{flag: "cluster-signing-legacy-unknown", signer: certificatesv1beta1.LegacyUnknownSignerName},
	}
	f.all.add(c, "all signers of Kubernetes")
	for i := range f.single {
		f.single[i].add(c, "the signer "+f.single[i].signer)
	}
	c.Flags().DurationVar(&f.duration, "cluster-signing-duration", 365*24*time.Hour, "maximum validity of signed certificates")
}

func (p *pairFlags) add(c *cobra.Command, of string) {
	c.Flags().StringVar(&p.certificate, p.flag+"-cert-file", "", "CA certificate of "+of)
	c.Flags().StringVar(&p.key, p.flag+"-key-file", "", "CA key of "+of)
}

// authority returns nil if the flags are not given.
func (p *pairFlags) authority() (func() (certificates.Authority, error), error) {
	if p.certificate == "" && p.key == "" {
		return nil, nil
	}
	if p.certificate == "" || p.key == "" {
		return nil, fmt.Errorf("--%s-cert-file and --%s-key-file go together", p.flag, p.flag)
	}
	from := certificates.Files(p.certificate, p.key)
	_, err := from()
	return from, err
}

func (f *signingFlags) signing() (certificates.Signing, error) {
	s := certificates.Signing{Duration: f.duration, Others: map[string]func() (certificates.Authority, error){}}
	var err error
	if s.Authority, err = f.all.authority(); err != nil {
		return s, err
	}
	for i := range f.single {
		from, err := f.single[i].authority()
		if err != nil {
			return s, err
		}
		if from != nil {
			s.Others[f.single[i].signer] = from
		}
	}
	if s.Authority != nil && len(s.Others) > 0 {
		return s, errors.New("cannot specify default and per controller certs at the same time")
	}
	return s, nil
}
