package envtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Suites expect, as of controller-runtime's envtest, that the scheme of all clients knows definitions of custom
// resources once this package is imported.
func init() {
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
}

// CRDInstallOptions say which definitions of custom resources are installed.
type CRDInstallOptions struct {
	// Scheme tells which kinds are converted by webhooks: those whose Go types implement Hub and Convertible. Nil is
	// scheme.Scheme.
	Scheme *runtime.Scheme
	// Paths are files, and directories of files, in YAML or JSON. What they hold beside definitions is passed over.
	Paths []string
	// CRDs are further definitions.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// ErrorIfPathMissing makes a path without a file an error.
	ErrorIfPathMissing bool
	// MaxTime is how long to wait until definitions are served: 10 seconds by default.
	MaxTime time.Duration
	// PollInterval is how often to look: every 100 milliseconds by default.
	PollInterval time.Duration
	// CleanUpAfterUse lets Environment.Stop delete the definitions.
	CleanUpAfterUse bool
	// WebhookOptions say where webhooks that convert are served.
	WebhookOptions WebhookInstallOptions
}

const (
	defaultMaxTime      = 10 * time.Second
	defaultPollInterval = 100 * time.Millisecond
)

func (o *CRDInstallOptions) setDefaults() {
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.MaxTime == 0 {
		o.MaxTime = defaultMaxTime
	}
	if o.PollInterval == 0 {
		o.PollInterval = defaultPollInterval
	}
}

// InstallCRDs reads definitions, creates or updates them, and waits until they are served. It returns all of them.
func InstallCRDs(config *rest.Config, options CRDInstallOptions) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	options.setDefaults()
	if err := ReadCRDFiles(&options); err != nil {
		return nil, fmt.Errorf("unable to read CRD files: %w", err)
	}
	if err := options.setConversion(); err != nil {
		return nil, err
	}
	if err := CreateCRDs(config, options.CRDs); err != nil {
		return options.CRDs, fmt.Errorf("unable to create CRD instances: %w", err)
	}
	if err := WaitForCRDs(config, options.CRDs, options); err != nil {
		return options.CRDs, fmt.Errorf("something went wrong waiting for CRDs to appear as API resources: %w", err)
	}
	return options.CRDs, nil
}

// CreateCRDs creates definitions, and updates those that exist.
func CreateCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	client, err := newClient(config)
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := client.put(context.Background(), definitions, crd); err != nil {
			return fmt.Errorf("unable to install CRD %q: %w", crd.Name, err)
		}
	}
	return nil
}

// UninstallCRDs reads definitions and deletes them. One that is not there is no error.
func UninstallCRDs(config *rest.Config, options CRDInstallOptions) error {
	if err := ReadCRDFiles(&options); err != nil {
		return err
	}
	client, err := newClient(config)
	if err != nil {
		return err
	}
	for _, crd := range options.CRDs {
		if err := client.delete(context.Background(), definitions, crd.Name); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("unable to uninstall CRD %q: %w", crd.Name, err)
		}
	}
	return nil
}

// WaitForCRDs waits until discovery shows all versions of definitions that are served.
func WaitForCRDs(config *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition, options CRDInstallOptions) error {
	options.setDefaults()
	client, err := newClient(config)
	if err != nil {
		return err
	}
	missing := map[string]map[string]bool{} // resources by group and version
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			gv := crd.Spec.Group + "/" + version.Name
			if version.Served && missing[gv] == nil {
				missing[gv] = map[string]bool{}
			}
			if version.Served {
				missing[gv][crd.Spec.Names.Plural] = true
			}
		}
	}
	return poll(options.PollInterval, options.MaxTime, func(ctx context.Context) error {
		var all error
		for gv, resources := range missing {
			served, err := client.resources(ctx, gv)
			for _, name := range served {
				delete(resources, name)
			}
			if len(resources) == 0 {
				delete(missing, gv)
				continue
			}
			for name := range resources {
				err = errors.Join(err, fmt.Errorf("%s of %s is not served", name, gv))
			}
			all = errors.Join(all, err)
		}
		return all
	})
}

// poll calls check until it returns nil. It gives up after a while, with the last error.
func poll(every, most time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", most, err)
		}
	}
}

// mergeCRDs is both lists, without those of the first whose names the second has. What is returned may be changed.
func mergeCRDs(first, second []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	var all definitionSet
	for _, crd := range append(first[:len(first):len(first)], second...) {
		all.add(crd.DeepCopy())
	}
	return all.list
}

// mergePaths is both lists, each path once.
func mergePaths(first, second []string) []string {
	var all []string
	known := map[string]bool{}
	for _, path := range append(first[:len(first):len(first)], second...) {
		if !known[path] {
			known[path] = true
			all = append(all, path)
		}
	}
	return all
}
