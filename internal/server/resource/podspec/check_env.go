package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Fields of a pod that its containers can read, and fields that its volumes can read.
var (
	fieldsForEnv = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fieldsForVolumes = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
	fieldsOfPods     = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid", "spec.host", "spec.nodeName",
		"spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.phase",
		"status.podIP", "status.podIPs",
	}
	resourcesOfContainers = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
)

func (x *examiner) env(p fieldPath, vars []corev1.EnvVar) {
	list := p.child("env")
	for i := range vars {
		item := list.item(i)
		if vars[i].Name == "" {
			x.required(item.child("name"), "")
		} else if !isWord(vars[i].Name) {
			x.invalidAll(item.child("name"), vars[i].Name, validation.IsRelaxedEnvVarName(vars[i].Name))
		}
		if vars[i].ValueFrom != nil {
			x.valueFrom(item.child("valueFrom"), &vars[i])
		}
	}
}

func (x *examiner) valueFrom(p fieldPath, v *corev1.EnvVar) {
	s, sources := v.ValueFrom, 0
	if s.FieldRef != nil {
		sources++
		x.fieldRef(p.child("fieldRef"), s.FieldRef, fieldsForEnv)
	}
	if s.ResourceFieldRef != nil {
		sources++
		x.resourceRef(p.child("resourceFieldRef"), s.ResourceFieldRef, false)
	}
	if r := s.ConfigMapKeyRef; r != nil {
		sources++
		x.keyRef(p.child("configMapKeyRef"), r.Name, r.Key)
	}
	if r := s.SecretKeyRef; r != nil {
		sources++
		x.keyRef(p.child("secretKeyRef"), r.Name, r.Key)
	}
	if s.FileKeyRef != nil {
		sources++
		x.fileRef(p.child("fileKeyRef"), s.FileKeyRef)
	}
	if sources == 0 {
		x.invalid(p, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	}
	switch {
	case v.Value != "" && sources != 0:
		x.invalid(p, "", "may not be specified when `value` is not empty")
	case v.Value == "" && sources > 1:
		x.invalid(p, "", "may not have more than one field specified at a time")
	}
}

func (x *examiner) fieldRef(p fieldPath, r *corev1.ObjectFieldSelector, known []string) {
	if !x.requireText(p, "apiVersion", r.APIVersion) || !x.requireText(p, "fieldPath", r.FieldPath) {
		return
	}
	base, subscript, subscripted := splitSubscript(r.FieldPath)
	c := p.child("fieldPath")
	switch {
	case r.APIVersion != "v1":
		x.invalid(c, r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion)
	case subscripted:
		x.subscript(p, base, subscript, r.FieldPath)
	case !slices.Contains(fieldsOfPods, r.FieldPath):
		x.invalid(c, r.FieldPath, "error converting fieldPath: field label not supported: "+r.FieldPath)
	case !slices.Contains(known, strings.Replace(r.FieldPath, "spec.host", "spec.nodeName", 1)):
		oneOf(&x.findings, c, r.FieldPath, known...)
	}
}

func (x *examiner) subscript(p fieldPath, base, key, whole string) {
	switch base {
	case "metadata.annotations":
		x.invalidAll(p, key, qualifiedName(strings.ToLower(key)))
	case "metadata.labels":
		x.invalidAll(p, key, qualifiedName(key))
	default:
		x.invalid(p.child("fieldPath"), whole, fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s", whole))
	}
}

// splitSubscript splits path['key'].
func splitSubscript(path string) (base, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	base, key, ok = strings.Cut(rest, "['")
	if !ok || base == "" {
		return path, "", false
	}
	return base, key, true
}

func (x *examiner) resourceRef(p fieldPath, r *corev1.ResourceFieldSelector, volume bool) {
	if (!volume || x.requireText(p, "containerName", r.ContainerName)) && x.requireText(p, "resource", r.Resource) {
		huge := strings.HasPrefix(r.Resource, "limits.hugepages-") || strings.HasPrefix(r.Resource, "requests.hugepages-")
		if !huge && !slices.Contains(resourcesOfContainers, r.Resource) {
			oneOf(&x.findings, p.child("resource"), r.Resource, resourcesOfContainers...)
		}
	}
	x.divisor(p, r)
}

const bytesDivisors = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"

func (x *examiner) divisor(p fieldPath, r *corev1.ResourceFieldSelector) {
	if r.Divisor.IsZero() {
		return
	}
	known, of := bytesDivisors, ""
	switch name := r.Resource[strings.IndexByte(r.Resource, '.')+1:]; {
	case name == "cpu":
		known, of = "1m, 1", "cpu resource"
	case name == "memory":
		of = "memory resource"
	case name == "ephemeral-storage":
		of = "local ephemeral storage resource"
	case strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		of = "hugepages resource"
	default:
		return
	}
	if !slices.Contains(strings.Split(known, ", "), r.Divisor.String()) {
		x.invalid(p.child("divisor"), r.Resource, "only divisor's values "+strings.Replace(known, "1m, 1", "1m and 1", 1)+" are supported with the "+of)
	}
}

func (x *examiner) keyRef(p fieldPath, name, key string) {
	x.invalidAll(p.child("name"), name, subdomain(name))
	if x.requireText(p, "key", key) {
		x.invalidAll(p.child("key"), key, validation.IsConfigMapKey(key))
	}
}

func (x *examiner) fileRef(p fieldPath, r *corev1.FileKeySelector) {
	if x.requireText(p, "key", r.Key) {
		x.invalidAll(p.child("key"), r.Key, validation.IsRelaxedEnvVarName(r.Key))
	}
	if x.requireText(p, "volumeName", r.VolumeName) {
		x.invalidAll(p.child("volumeName"), r.VolumeName, label(r.VolumeName))
	}
	if x.requireText(p, "path", r.Path) {
		x.noBacksteps(p.child("path"), r.Path)
	}
}

// filesOfVolumes requires that variables from files name emptyDir volumes of the pod.
func (x *examiner) filesOfVolumes(p fieldPath, vars []corev1.EnvVar) {
	list := p.child("env")
	for i := range vars {
		if vars[i].ValueFrom == nil || vars[i].ValueFrom.FileKeyRef == nil {
			continue
		}
		name := vars[i].ValueFrom.FileKeyRef.VolumeName
		item := list.item(i)
		from := item.child("valueFrom")
		ref := from.child("fileKeyRef")
		c := ref.child("volumeName")
		if v := x.usable(name); v == nil {
			x.notFound(c, name)
		} else if v.EmptyDir == nil {
			x.invalid(c, name, "referenced volume must be of type emptyDir")
		}
	}
}

// objectName requires the name of another object.
func (x *examiner) objectName(p fieldPath, name string) {
	if x.requireText(p, "name", name) {
		x.invalidAll(p.child("name"), name, subdomain(name))
	}
}

func (x *examiner) envFrom(p fieldPath, sources []corev1.EnvFromSource) {
	list := p.child("envFrom")
	for i := range sources {
		s := &sources[i]
		item := list.item(i)
		if s.Prefix != "" {
			x.invalidAll(item.child("prefix"), s.Prefix, validation.IsRelaxedEnvVarName(s.Prefix))
		}
		n := 0
		if s.ConfigMapRef != nil {
			n++
			x.objectName(item.child("configMapRef"), s.ConfigMapRef.Name)
		}
		if s.SecretRef != nil {
			n++
			x.objectName(item.child("secretRef"), s.SecretRef.Name)
		}
		switch {
		case n == 0:
			x.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`")
		case n > 1:
			x.invalid(list, "", "may not have more than one field specified at a time")
		}
	}
}
