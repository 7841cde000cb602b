package envtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ReadCRDFiles adds the definitions in the files of options.Paths to options.CRDs. Of those with one name the last is
// taken.
func ReadCRDFiles(options *CRDInstallOptions) error {
	var found definitionSet
	for _, path := range options.Paths {
		err := documents(path, func(doc []byte) error {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(doc, crd); err != nil {
				return err
			}
			if crd.Kind == "CustomResourceDefinition" && crd.Spec.Names.Kind != "" && crd.Spec.Group != "" {
				found.add(crd)
			}
			return nil
		})
		if err != nil && (options.ErrorIfPathMissing || !missing(path, err)) {
			return err
		}
	}
	options.CRDs = append(options.CRDs, found.list...)
	return nil
}

// definitionSet holds definitions in the order in which their names came.
type definitionSet struct {
	list []*apiextensionsv1.CustomResourceDefinition
}

func (s *definitionSet) add(crd *apiextensionsv1.CustomResourceDefinition) {
	same := func(other *apiextensionsv1.CustomResourceDefinition) bool {
		return other.Name == crd.Name && other.APIVersion == crd.APIVersion
	}
	if i := slices.IndexFunc(s.list, same); i >= 0 {
		s.list[i] = crd
		return
	}
	s.list = append(s.list, crd)
}

// readWebhooks adds the configurations in the files of o.Paths.
func (o *WebhookInstallOptions) readWebhooks() error {
	for _, path := range o.Paths {
		err := documents(path, o.readWebhook)
		if err != nil && (!o.IgnoreErrorIfPathMissing || !missing(path, err)) {
			return err
		}
	}
	return nil
}

func (o *WebhookInstallOptions) readWebhook(doc []byte) error {
	var head metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return err
	}
	if head.Kind != "MutatingWebhookConfiguration" && head.Kind != "ValidatingWebhookConfiguration" {
		return nil
	}
	if want := admissionv1.SchemeGroupVersion.String(); head.APIVersion != want {
		return fmt.Errorf("the %s %s is of %s: only %s is supported", head.Kind, head.Name, head.APIVersion, want)
	}
	if head.Kind == "MutatingWebhookConfiguration" {
		hook := &admissionv1.MutatingWebhookConfiguration{}
		o.MutatingWebhooks = append(o.MutatingWebhooks, hook)
		return yaml.Unmarshal(doc, hook)
	}
	hook := &admissionv1.ValidatingWebhookConfiguration{}
	o.ValidatingWebhooks = append(o.ValidatingWebhooks, hook)
	return yaml.Unmarshal(doc, hook)
}

// missing tells whether a path itself is not there.
func missing(path string, err error) bool {
	var at *fs.PathError
	return errors.Is(err, fs.ErrNotExist) && errors.As(err, &at) && at.Path == path
}

// documents calls read with each document of a file or, if the path is a directory, of the files in it that are YAML or
// JSON.
func documents(path string, read func([]byte) error) error {
	at, err := os.Stat(path)
	if err != nil {
		return err
	}
	files := []string{path}
	if at.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		files = nil
		for _, e := range entries {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	for _, file := range files {
		if !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(file)) {
			continue
		}
		if err := documentsOf(file, read); err != nil {
			return err
		}
	}
	return nil
}

func documentsOf(file string, read func([]byte) error) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = read(doc)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}
