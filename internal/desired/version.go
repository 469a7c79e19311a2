package desired

import (
	"encoding/json"

	"quarry.dev/quarry/api/v1alpha1"
	"quarry.dev/quarry/internal/artifact"
)

// RecipeDigest covers what a user would call "the same setting": indexing, retrieval, and the image that runs both.
func RecipeDigest(indexing v1alpha1.IndexingSpec, retrieval v1alpha1.RetrievalSpec, image string) string {
	return jsonDigest(struct {
		Indexing  v1alpha1.IndexingSpec
		Retrieval v1alpha1.RetrievalSpec
		Image     string
	}{indexing, retrieval, image})
}

// VersionDigest identifies one version: a snapshot under a recipe.
func VersionDigest(snapshot, recipe string) string { return jsonDigest([]string{snapshot, recipe}) }

func jsonDigest(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		// The API types hold nothing that JSON cannot say.
		panic(err)
	}
	return artifact.Digest(text)
}
