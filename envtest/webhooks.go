package envtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/pki"
)

// WebhookInstallOptions say which webhooks are installed, and where the suite serves them.
type WebhookInstallOptions struct {
	// Paths are files, and directories of files, in YAML or JSON. What they hold beside configurations of webhooks is
	// passed over.
	Paths []string
	// MutatingWebhooks and ValidatingWebhooks are further configurations.
	MutatingWebhooks   []*admissionv1.MutatingWebhookConfiguration
	ValidatingWebhooks []*admissionv1.ValidatingWebhookConfiguration
	// IgnoreSchemeConvertible lets webhooks convert all custom resources, whatever the scheme says.
	IgnoreSchemeConvertible bool
	// IgnoreErrorIfPathMissing passes over a path without a file.
	IgnoreErrorIfPathMissing bool
	// LocalServingHost and LocalServingPort are where the suite is to serve webhooks: a free port of localhost by
	// default.
	LocalServingHost string
	LocalServingPort int
	// LocalServingCertDir is a directory with tls.crt and tls.key, by which webhooks are to be served. Start makes it,
	// Stop removes it.
	LocalServingCertDir string
	// LocalServingCAData is the authority of tls.crt. Start sets it.
	LocalServingCAData []byte
	// LocalServingHostExternalName is by which name the API server reaches the webhooks, if not by LocalServingHost.
	LocalServingHostExternalName string
	// MaxTime and PollInterval say how long to wait until configurations can be read, and how often to look.
	MaxTime      time.Duration
	PollInterval time.Duration
}

// any tells whether there are webhooks.
func (o *WebhookInstallOptions) any() bool {
	return len(o.Paths)+len(o.MutatingWebhooks)+len(o.ValidatingWebhooks) > 0 || o.IgnoreSchemeConvertible
}

// PrepWithoutInstalling makes the certificate, reads the files, and lets the configurations lead to the suite's own
// server.
func (o *WebhookInstallOptions) PrepWithoutInstalling() error {
	if _, err := o.address(); err != nil {
		return err
	}
	if err := o.makeCertificate(); err != nil {
		return fmt.Errorf("a certificate for webhooks: %w", err)
	}
	if err := o.readWebhooks(); err != nil {
		return err
	}
	return o.ModifyWebhookDefinitions()
}

// ModifyWebhookDefinitions lets the configurations lead to the suite's own server instead of to services of the
// cluster.
func (o *WebhookInstallOptions) ModifyWebhookDefinitions() error {
	address, err := o.address()
	if err != nil {
		return err
	}
	for _, c := range o.MutatingWebhooks {
		for i := range c.Webhooks {
			o.redirect(&c.Webhooks[i].ClientConfig, address)
		}
	}
	for _, c := range o.ValidatingWebhooks {
		for i := range c.Webhooks {
			o.redirect(&c.Webhooks[i].ClientConfig, address)
		}
	}
	return nil
}

func (o *WebhookInstallOptions) redirect(c *admissionv1.WebhookClientConfig, address string) {
	c.CABundle = o.LocalServingCAData
	if c.Service == nil || c.Service.Path == nil {
		return
	}
	url := "https://" + address + "/" + strings.TrimPrefix(*c.Service.Path, "/")
	c.URL, c.Service = &url, nil
}

// address is where the API server reaches the webhooks.
func (o *WebhookInstallOptions) address() (string, error) {
	if o.LocalServingPort == 0 {
		if err := o.findPort(); err != nil {
			return "", fmt.Errorf("find a port for webhooks: %w", err)
		}
	}
	host := o.LocalServingHostExternalName
	if host == "" {
		host = o.LocalServingHost
	}
	return net.JoinHostPort(host, strconv.Itoa(o.LocalServingPort)), nil
}

// found are the ports that environments of this process were given. A port is free again before the suite opens it, and
// parallel tests must not be given the same.
var found sync.Map

func (o *WebhookInstallOptions) findPort() error {
	host := o.LocalServingHost
	if host == "" {
		host = "localhost"
	}
	for {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return err
		}
		at := l.Addr().(*net.TCPAddr)
		if err := l.Close(); err != nil {
			return err
		}
		if _, again := found.LoadOrStore(at.Port, true); !again {
			o.LocalServingHost, o.LocalServingPort = at.IP.String(), at.Port
			return nil
		}
	}
}

// makeCertificate makes an authority and a certificate, and writes the latter to a directory of its own.
func (o *WebhookInstallOptions) makeCertificate() error {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	for _, host := range []string{o.LocalServingHost, o.LocalServingHostExternalName} {
		if host != "" {
			hosts = append(hosts, host)
		}
	}
	keys, err := pki.Open("", hosts, time.Now())
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "envtest-serving-certs-")
	if err != nil {
		return err
	}
	o.LocalServingCertDir = directory
	o.LocalServingCAData = keys.Authority.CertPEM
	return errors.Join(
		os.WriteFile(filepath.Join(directory, "tls.crt"), keys.Serving.CertPEM, 0o600),
		os.WriteFile(filepath.Join(directory, "tls.key"), keys.Serving.KeyPEM, 0o600),
	)
}

// Install creates or updates the configurations, and waits until they can be read.
func (o *WebhookInstallOptions) Install(config *rest.Config) error {
	if len(o.LocalServingCAData) == 0 {
		if err := o.PrepWithoutInstalling(); err != nil {
			return err
		}
	}
	client, err := newClient(config)
	if err != nil {
		return err
	}
	for _, hook := range o.MutatingWebhooks {
		if err := client.put(context.Background(), mutating, hook); err != nil {
			return fmt.Errorf("install the mutating webhooks %s: %w", hook.Name, err)
		}
	}
	for _, hook := range o.ValidatingWebhooks {
		if err := client.put(context.Background(), validating, hook); err != nil {
			return fmt.Errorf("install the validating webhooks %s: %w", hook.Name, err)
		}
	}
	return WaitForWebhooks(config, o.MutatingWebhooks, o.ValidatingWebhooks, *o)
}

// WaitForWebhooks waits until configurations can be read.
func WaitForWebhooks(config *rest.Config, mutatingWebhooks []*admissionv1.MutatingWebhookConfiguration,
	validatingWebhooks []*admissionv1.ValidatingWebhookConfiguration, options WebhookInstallOptions) error {
	client, err := newClient(config)
	if err != nil {
		return err
	}
	times := CRDInstallOptions{MaxTime: options.MaxTime, PollInterval: options.PollInterval}
	times.setDefaults()
	return poll(times.PollInterval, times.MaxTime, func(ctx context.Context) (err error) {
		for _, hook := range mutatingWebhooks {
			err = errors.Join(err, client.get(ctx, mutating, hook.Name, mutating.empty()))
		}
		for _, hook := range validatingWebhooks {
			err = errors.Join(err, client.get(ctx, validating, hook.Name, validating.empty()))
		}
		return err
	})
}

// Cleanup removes the directory of the certificate.
func (o *WebhookInstallOptions) Cleanup() error {
	if o.LocalServingCertDir == "" {
		return nil
	}
	return os.RemoveAll(o.LocalServingCertDir)
}
