// Package apply writes the objects that Quarry owns: by server-side apply with one field owner where an object may
// drift, create-only where it may not (Jobs, key Secrets). It never touches an object that another owner controls,
// and sends nothing when the live object already says what it should, so an idle operator writes nothing.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.dev/quarry/internal/desired"
)

const (
	// FieldOwner is the name under which every field that Quarry sets is recorded.
	FieldOwner = "quarry"
	// IntentAnnotation holds the digest of the object as it was last applied. It tells a field that the intent no
	// longer names (which must be removed) from one that somebody else added (which must stay).
	IntentAnnotation = "quarry.dev/intent"
)

// NameConflict is returned, wrapped or not, where an object of that name exists and is not controlled by the owner.
type NameConflict = desired.NameConflict

// AsNameConflict finds a *NameConflict in the error's chain.
func AsNameConflict(err error) (*NameConflict, bool) { return errors.AsType[*NameConflict](err) }

// ErrTerminating says that the object is being deleted: it can be made anew when it is gone.
var ErrTerminating = errors.New("the object is being deleted")

// Apply makes the live object say what obj says, and makes owner its controller. On return obj is the live object
// where something was written, and unchanged otherwise. The client's reads may come from a cache.
func Apply(ctx context.Context, c client.Client, obj, owner client.Object) error {
	if err := own(c, obj, owner); err != nil {
		return err
	}
	intent, err := intentOf(c, obj)
	if err != nil {
		return err
	}
	live, err := fetch(ctx, c, obj)
	if apierrors.IsNotFound(err) {
		return create(ctx, c, obj, intent)
	}
	if err != nil {
		return fmt.Errorf("read %s %q: %w", desired.KindOf(obj), obj.GetName(), err)
	}
	if err := writable(live, owner.GetUID()); err != nil {
		return err
	}
	same, err := says(live, intent)
	if err != nil || same {
		return err
	}
	return repair(ctx, c, live, intent)
}

// Create makes the object if none of that name exists, with owner as its controller, and never changes it afterwards.
// On return obj is the live object. created tells whether this call made it.
func Create(ctx context.Context, c client.Client, obj, owner client.Object) (created bool, err error) {
	if err := own(c, obj, owner); err != nil {
		return false, err
	}
	live, err := fetch(ctx, c, obj)
	if apierrors.IsNotFound(err) {
		if err := c.Create(ctx, obj, client.FieldOwner(FieldOwner)); err != nil {
			return false, fmt.Errorf("create %s %q: %w", desired.KindOf(obj), obj.GetName(), err)
		}
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %q: %w", desired.KindOf(obj), obj.GetName(), err)
	}
	if err := writable(live, owner.GetUID()); err != nil {
		return false, err
	}
	// Both have the kind's Go type: fetch made one for obj's kind.
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(live).Elem())
	return false, nil
}

// Delete removes the object if owner controls it; an object that is gone, or somebody else's, is left as it is.
func Delete(ctx context.Context, c client.Client, obj, owner client.Object) error {
	live, err := fetch(ctx, c, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %q: %w", desired.KindOf(obj), obj.GetName(), err)
	}
	if desired.Conflict(live, owner.GetUID()) != nil || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	uid := live.GetUID()
	err = c.Delete(ctx, live, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}

// own stamps the kind and the controller reference. References never cross a namespace: the collector would delete the object.
func own(c client.Client, obj, owner client.Object) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("kind of %T: %w", obj, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	if err := controllerutil.SetControllerReference(owner, obj, c.Scheme()); err != nil {
		return fmt.Errorf("own %s %q: %w", gvk.Kind, obj.GetName(), err)
	}
	return nil
}

// intentOf is what gets applied: obj without its status, with the digest of itself as an annotation.
func intentOf(c client.Client, obj client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	delete(content, "status")
	dropCreationTimestamps(content)
	intent := &unstructured.Unstructured{Object: content}
	intent.SetManagedFields(nil)
	intent.SetResourceVersion("")
	intent.SetUID("")
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	sum := sha256.Sum256(text)
	annotations := intent.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[IntentAnnotation] = hex.EncodeToString(sum[:8])
	intent.SetAnnotations(annotations)
	return intent, nil
}

// fetch reads the live object of obj's kind and name into a new value.
func fetch(ctx context.Context, c client.Client, obj client.Object) (client.Object, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		var err error
		if gvk, err = c.GroupVersionKindFor(obj); err != nil {
			return nil, err
		}
	}
	made, err := c.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	live, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", gvk)
	}
	return live, c.Get(ctx, client.ObjectKeyFromObject(obj), live)
}

// writable refuses somebody else's object, and one that is going away.
func writable(live client.Object, owner types.UID) error {
	if err := desired.Conflict(live, owner); err != nil {
		return err
	}
	if !live.GetDeletionTimestamp().IsZero() {
		return fmt.Errorf("%s %q: %w", desired.KindOf(live), live.GetName(), ErrTerminating)
	}
	return nil
}

// create posts the object instead of applying it: an apply would merge into an object that
// somebody made since the cache was filled.
func create(ctx context.Context, c client.Client, obj client.Object, intent *unstructured.Unstructured) error {
	obj.SetAnnotations(intent.GetAnnotations())
	if err := c.Create(ctx, obj, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("create %s %q: %w", intent.GetKind(), intent.GetName(), err)
	}
	return nil
}

// repair applies the intent to exactly this live object: the UID guards against one that took its name meanwhile.
// The fields of the first post are handed to apply first, so that a field which the intent drops is removed.
func repair(ctx context.Context, c client.Client, live client.Object, intent *unstructured.Unstructured) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(FieldOwner), FieldOwner)
	if err != nil {
		return fmt.Errorf("fields of %s %q: %w", intent.GetKind(), intent.GetName(), err)
	}
	if len(patch) > 0 {
		if err := c.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			return fmt.Errorf("take over fields of %s %q: %w", intent.GetKind(), intent.GetName(), err)
		}
	}
	intent.SetUID(live.GetUID())
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %q: %w", intent.GetKind(), intent.GetName(), err)
	}
	return nil
}
