package ownership

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// filler fills structs at random, mostly with little.
type filler struct {
	*rand.Rand
	// strange lets in what the quick way leaves to the library.
	strange bool
}

var words = []string{"a", "b", "c", "tcp", "x.example.com/y", "", "nginx:1.2"}

func (f *filler) word() string {
	if f.strange && f.IntN(30) == 0 {
		return "odd \"<\\é\n"
	}
	return words[f.IntN(len(words))]
}

// fill sets parts of v; with every level it sets less.
func (f *filler) fill(v reflect.Value, depth int) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.Time{Time: time.Unix(int64(f.IntN(3)*1000), 0).UTC()}
		return
	case *metav1.MicroTime:
		*p = metav1.MicroTime{Time: time.UnixMicro(int64(f.IntN(3) * 1000)).UTC()}
		return
	case *resource.Quantity:
		*p = resource.MustParse([]string{"1", "1000m", "1Gi", "500m", "2k"}[f.IntN(5)])
		return
	case *intstr.IntOrString:
		*p = []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(80), intstr.FromString("80"), intstr.FromString("50%")}[f.IntN(4)]
		return
	case *runtime.RawExtension:
		*p = runtime.RawExtension{Raw: fmt.Appendf(nil, `{"a":%d}`, f.IntN(3))}
		return
	case *apiextensionsv1.JSON:
		*p = apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"a":%d}`, f.IntN(3))}
		return
	case *metav1.FieldsV1:
		return
	case *metav1.TypeMeta:
		return
	case *[]metav1.ManagedFieldsEntry:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.IntN(4) > 0 {
			if v.IsNil() || f.IntN(2) == 0 {
				v.Set(reflect.New(v.Type().Elem()))
			}
			f.fill(v.Elem(), depth)
		} else {
			v.SetZero()
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && f.IntN(3+3*depth) < 3 {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		f.fillSlice(v, depth)
	case reflect.Map:
		f.fillMap(v, depth)
	case reflect.String:
		v.SetString(f.word())
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(float64(f.IntN(3)))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.IntN(3)))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.IntN(3)))
	}
}

func (f *filler) fillSlice(v reflect.Value, depth int) {
	switch n := f.IntN(6); n {
	case 0:
		v.SetZero()
	case 1:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	default:
		out := reflect.MakeSlice(v.Type(), 0, n)
		for i := range n - 1 {
			e := reflect.New(v.Type().Elem()).Elem()
			if i < v.Len() && f.IntN(2) == 0 {
				e.Set(v.Index(i))
			}
			f.fill(e, depth+1)
			f.name(e, i)
			out = reflect.Append(out, e)
		}
		v.Set(out)
	}
}

// name makes most elements of a list differ in what could be their keys.
func (f *filler) name(e reflect.Value, i int) {
	if f.IntN(40) == 0 {
		return
	}
	word := string(rune('a'+i)) + words[f.IntN(2)]
	if e.Kind() == reflect.String {
		e.SetString(word)
	}
	if e.Kind() != reflect.Struct {
		return
	}
	for _, field := range []string{"Name", "Type", "Key", "UID", "MountPath", "DevicePath", "TopologyKey", "IP", "Protocol", "WhenUnsatisfiable", "Driver",
		"ContainerPort", "Port", "Status", "Reason", "Device", "Pool", "Resource", "Operator", "Scope", "ResourceClaimName", "RestartPolicy"} {
		switch v := e.FieldByName(field); {
		case !v.IsValid():
		case v.Kind() == reflect.String:
			v.SetString(word)
		case v.CanInt():
			v.SetInt(int64(i + 1))
		}
	}
}

func (f *filler) fillMap(v reflect.Value, depth int) {
	if f.IntN(6) == 0 {
		v.SetZero()
		return
	}
	out := reflect.MakeMap(v.Type())
	for range f.IntN(4) {
		k := reflect.New(v.Type().Key()).Elem()
		k.SetString(f.word())
		e := reflect.New(v.Type().Elem()).Elem()
		f.fill(e, depth+1)
		out.SetMapIndex(k, e)
	}
	v.Set(out)
}
