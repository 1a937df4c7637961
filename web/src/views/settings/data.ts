/** Data and actions of the Settings view. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap, type Schemas } from "@/api/client";
import { showError } from "@/app/toasts";

export type Token = Schemas["TokenDetails"];

const TOKENS = ["tokens"];
const SECRETS = ["secrets"];

export function useTokens() {
  return useQuery({ queryKey: TOKENS, queryFn: () => unwrap(api.GET("/api/v1/tokens")) });
}

export interface NewToken {
  name: string;
  role: string;
  expires_s: number | null;
}

export function useCreateToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: NewToken) => unwrap(api.POST("/api/v1/tokens", { body })),
    onSuccess: () => client.invalidateQueries({ queryKey: TOKENS }),
  });
}

export function useRevokeToken() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      unwrap(api.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: TOKENS }),
    onError: (error) => showError("The token could not be revoked", error),
  });
}

export function useSecrets() {
  return useQuery({ queryKey: SECRETS, queryFn: () => unwrap(api.GET("/api/v1/secrets")) });
}

export function useSetSecret() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ name, value }: { name: string; value: string }) =>
      unwrap(api.PUT("/api/v1/secrets/{name}", { params: { path: { name } }, body: { value } })),
    onSuccess: () => client.invalidateQueries({ queryKey: SECRETS }),
  });
}

export function useDeleteSecret() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (name: string) =>
      unwrap(api.DELETE("/api/v1/secrets/{name}", { params: { path: { name } } })),
    onSuccess: () => client.invalidateQueries({ queryKey: SECRETS }),
    onError: (error) => showError("The secret could not be deleted", error),
  });
}

export function useBackendList() {
  return useQuery({ queryKey: ["backends"], queryFn: () => unwrap(api.GET("/api/v1/backends")) });
}

const ROLES = ["viewer", "member", "admin", "operator"] as const;
export type Role = (typeof ROLES)[number];

/** The roles that a person with this role may give to a token, and whose tokens the person may revoke. */
export function grantableRoles(own: string): Role[] {
  return ROLES.slice(0, ROLES.findIndex((role) => role === own) + 1);
}

const SECRET_NAME = /^[A-Za-z0-9_][A-Za-z0-9_./-]*$/;

/** What is wrong with the name of a secret; undefined if nothing. */
export function secretNameProblem(name: string): string | undefined {
  if (name === "" || (SECRET_NAME.test(name) && name.length <= 200)) return undefined;
  return "Use letters, digits and _ . / -, starting with a letter, a digit or _.";
}
