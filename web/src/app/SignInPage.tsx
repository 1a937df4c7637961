import { EmptyState } from "@/ui/states";

/** Shown to a browser without a valid session. */
export function SignInPage() {
  return (
    <main className="sign-in">
      <EmptyState title="Sign in to anygpu" command="anygpu open">
        This browser is not signed in, or its session has ended. Run this command where anygpu is installed.
        It opens a link that signs in this browser once.
      </EmptyState>
    </main>
  );
}
