package expression

import (
	"encoding/json"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"

	"github.com/millrace/millrace/internal/server/auth"
)

const (
	claimsName = "claims"
	userName   = "user"
)

var (
	claimsType = apiservercel.NewMapType(apiservercel.StringType, apiservercel.AnyType, -1)
	userType   = apiservercel.NewObjectType("kubernetes.UserInfo", map[string]*apiservercel.DeclField{
		"username": optional("username", apiservercel.StringType),
		"uid":      optional("uid", apiservercel.StringType),
		"groups":   optional("groups", texts),
		"extra":    optional("extra", apiservercel.NewMapType(apiservercel.StringType, texts, -1)),
	})
	texts = apiservercel.NewListType(apiservercel.StringType, -1)

	claimsEnv = variable(claimsName, claimsType, claimsType)
	userEnv   = variable(userName, userType, userType)
)

func optional(name string, of *apiservercel.DeclType) *apiservercel.DeclField {
	return apiservercel.NewDeclField(name, of, false, nil, nil)
}

// Claims compiles an expression about the claims of a token, by the name "claims".
func Claims(text string, returns *cel.Type) (*Expression, *apiservercel.Error) {
	return compile(claimsEnv, claimsName, text, returns)
}

// User compiles a condition about a user, by the name "user".
func User(text string) (*Expression, *apiservercel.Error) {
	return compile(userEnv, userName, text, cel.BoolType)
}

// ClaimsValue is the claims of a token as expressions see them. A claim is decoded when an expression reads it.
func ClaimsValue(claims map[string]json.RawMessage) any {
	all := lazy.NewMapValue(types.NewObjectType("kubernetes.claims"))
	for name, text := range claims {
		all.Append(name, func(*lazy.MapValue) ref.Val {
			var value any
			if err := json.Unmarshal(text, &value); err != nil {
				return types.NewErr("claim %q failed to unmarshal: %w", name, err)
			}
			return native(value)
		})
	}
	return all
}

// UserValue is a user as expressions see it.
func UserValue(u auth.User) any {
	all := lazy.NewMapValue(types.NewObjectType("kubernetes.UserInfo"))
	for name, value := range map[string]any{"username": u.Name, "uid": u.UID, "groups": u.Groups, "extra": u.Extra} {
		all.Append(name, func(*lazy.MapValue) ref.Val { return native(value) })
	}
	return all
}

// native is a value of Go for expressions, which may name keys that are no identifiers in their escaped form: a__dot__b
// is "a.b".
func native(value any) ref.Val {
	return unescaping(types.DefaultTypeAdapter.NativeToValue(value))
}

func unescaping(value ref.Val) ref.Val {
	switch v := value.(type) {
	case traits.Mapper:
		return escapedMap{v}
	case traits.Lister:
		return escapedList{v}
	}
	return value
}

// escapedMap finds keys by their escaped names too.
type escapedMap struct{ traits.Mapper }

// Find implements traits.Mapper.
func (m escapedMap) Find(key ref.Val) (ref.Val, bool) {
	if text, ok := key.(types.String); ok {
		if plain, ok := apiservercel.Unescape(string(text)); ok {
			key = types.String(plain)
		}
	}
	value, found := m.Mapper.Find(key)
	return unescaping(value), found
}

// escapedList does the same in what it holds.
type escapedList struct{ traits.Lister }

// Get implements traits.Lister.
func (l escapedList) Get(index ref.Val) ref.Val { return unescaping(l.Lister.Get(index)) }
