package furnish

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// environment collects a container's variables. A later variable replaces an earlier one of the same name, at its
// position.
type environment struct {
	all   []container.Variable
	place map[string]int
}

func (e *environment) set(name, value string) {
	if i, ok := e.place[name]; ok {
		e.all[i].Value = value
		return
	}
	e.place[name] = len(e.all)
	e.all = append(e.all, container.Variable{Name: name, Value: value})
}

func (e *environment) get(name string) (string, bool) {
	i, ok := e.place[name]
	if !ok {
		return "", false
	}
	return e.all[i].Value, true
}

// env makes a container's environment: services first, then whole objects, then single variables.
func (f *Furnisher) env(ctx context.Context, pod *corev1.Pod, c *corev1.Container, ips []string) (*environment, error) {
	e := &environment{place: map[string]int{}}
	f.serviceEnv(e, pod)
	for i := range c.EnvFrom {
		if err := f.envFrom(ctx, e, pod, &c.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	for i := range c.Env {
		v := &c.Env[i]
		if v.ValueFrom == nil {
			e.set(v.Name, expand(v.Value, e.get))
			continue
		}
		value, ok, err := f.valueFrom(ctx, pod, c, v.ValueFrom, ips)
		if err != nil {
			return nil, err
		}
		if ok {
			e.set(v.Name, value)
		}
	}
	return e, nil
}

func (f *Furnisher) envFrom(ctx context.Context, e *environment, pod *corev1.Pod, s *corev1.EnvFromSource) error {
	var data map[string][]byte
	var err error
	var optional *bool
	kind, name := "configmap", ""
	switch {
	case s.ConfigMapRef != nil:
		name, optional = s.ConfigMapRef.Name, s.ConfigMapRef.Optional
		data, err = f.objects.configMap(ctx, pod, name)
	case s.SecretRef != nil:
		kind, name, optional = "secret", s.SecretRef.Name, s.SecretRef.Optional
		data, err = f.objects.secret(ctx, pod, name)
	}
	if apierrors.IsNotFound(err) {
		if optional != nil && *optional {
			return nil
		}
		return fmt.Errorf("%s %q not found", kind, name)
	}
	if err != nil {
		return err
	}
	for _, key := range sortedKeys(data) {
		if name := s.Prefix + key; len(validation.IsRelaxedEnvVarName(name)) == 0 {
			e.set(name, string(data[key]))
		}
	}
	return nil
}

// valueFrom resolves a variable's source. ok is false if an optional source is missing.
func (f *Furnisher) valueFrom(ctx context.Context, pod *corev1.Pod, c *corev1.Container, s *corev1.EnvVarSource, ips []string) (string, bool, error) {
	switch {
	case s.FieldRef != nil:
		text, err := f.field(pod, s.FieldRef.FieldPath, ips)
		return text, err == nil, err
	case s.ResourceFieldRef != nil:
		of := c
		if s.ResourceFieldRef.ContainerName != "" {
			of = find(pod, s.ResourceFieldRef.ContainerName)
		}
		text, err := f.resourceField(pod, of, s.ResourceFieldRef)
		return text, err == nil, err
	case s.ConfigMapKeyRef != nil:
		r := s.ConfigMapKeyRef
		data, err := f.objects.configMap(ctx, pod, r.Name)
		return one(data, err, r.Key, r.Optional, "configmap", "ConfigMap", pod.Namespace, r.Name)
	case s.SecretKeyRef != nil:
		r := s.SecretKeyRef
		data, err := f.objects.secret(ctx, pod, r.Name)
		return one(data, err, r.Key, r.Optional, "secret", "Secret", pod.Namespace, r.Name)
	}
	return "", false, nil
}

func one(data map[string][]byte, err error, key string, optional *bool, kind, title, namespace, name string) (string, bool, error) {
	maybe := optional != nil && *optional
	switch {
	case apierrors.IsNotFound(err) && maybe:
		return "", false, nil
	case apierrors.IsNotFound(err):
		return "", false, fmt.Errorf("%s %q not found", kind, name)
	case err != nil:
		return "", false, err
	}
	value, ok := data[key]
	if !ok && !maybe {
		return "", false, fmt.Errorf("couldn't find key %v in %s %v/%v", key, title, namespace, name)
	}
	return string(value), ok, nil
}

// expand replaces $(NAME) by the value of a known variable. $$ is an escaped dollar sign.
func expand(text string, get func(string) (string, bool)) string {
	if !strings.Contains(text, "$") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		switch text[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			name, _, ok := strings.Cut(text[i+2:], ")")
			if !ok {
				b.WriteByte('$')
				continue
			}
			if value, known := get(name); known {
				b.WriteString(value)
			} else {
				b.WriteString("$(" + name + ")")
			}
			i += len(name) + 2
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}
