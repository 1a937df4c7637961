/** Icons of 16 by 16 units. An icon beside text is hidden from screen readers; an icon alone needs a label. */

import type { ReactElement } from "react";

const SHAPES = {
  accuracy: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <circle cx="8" cy="8" r="2" />
      <path d="M8 1v2.5M8 12.5V15M1 8h2.5M12.5 8H15" />
    </>
  ),
  bell: (
    <>
      <path d="M4.5 7a3.5 3.5 0 0 1 7 0c0 3 1.5 4 1.5 4H3s1.5-1 1.5-4ZM6.75 13.25c.5.7 2 .7 2.5 0" />
    </>
  ),
  bolt: (
    <>
      <path d="M8.75 1.75 3.5 9H8l-.75 5.25L12.5 7H8z" />
    </>
  ),
  branch: (
    <>
      <path d="M4.5 5.5v5M4.5 8h3.5a3 3 0 0 0 3-2.5" />
      <circle cx="4.5" cy="3.75" r="1.5" />
      <circle cx="4.5" cy="12.25" r="1.5" />
      <circle cx="11.25" cy="4" r="1.5" />
    </>
  ),
  check: (
    <>
      <path d="m3.5 8.5 3 3 6-7" />
    </>
  ),
  chevronDown: (
    <>
      <path d="m4.5 6.5 3.5 3.5 3.5-3.5" />
    </>
  ),
  chevronRight: (
    <>
      <path d="m6.5 4.5 3.5 3.5-3.5 3.5" />
    </>
  ),
  columns: (
    <>
      <rect x="2.5" y="3" width="11" height="10" rx="1.5" />
      <path d="M6.25 3v10M9.75 3v10" />
    </>
  ),
  compare: (
    <>
      <path d="M2 12.5c2.5 0 3-8 6-8s3 4 6 4" />
      <path d="M2 9.5c2 0 3.5 1 6 1s3.5-6.5 6-6.5" opacity=".55" />
    </>
  ),
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 5.5V4A1.5 1.5 0 0 0 9 2.5H4A1.5 1.5 0 0 0 2.5 4v5A1.5 1.5 0 0 0 4 10.5h1.5" />
    </>
  ),
  costs: (
    <>
      <path d="M2.5 13.5h11M4.5 11V8M8 11V3M11.5 11V6" />
    </>
  ),
  down: (
    <>
      <path d="M8 3v9.5M4.5 9 8 12.5 11.5 9" />
    </>
  ),
  download: (
    <>
      <path d="M8 2.5v7.5M5 7.5 8 10.5l3-3M2.5 13.5h11" />
    </>
  ),
  edit: (
    <>
      <path d="m10.75 2.75 2.5 2.5-7.5 7.5-3.25.75.75-3.25zM9 4.5 11.5 7" />
    </>
  ),
  expand: (
    <>
      <path d="M9.5 2.5h4v4M13.5 2.5 9 7M6.5 13.5h-4v-4M2.5 13.5 7 9" />
    </>
  ),
  file: (
    <>
      <path d="M4 2.5h5l3 3v8H4zM9 2.5v3h3" />
    </>
  ),
  folder: (
    <>
      <path d="M2.5 4.5v8h11V6H8L6.5 4.5z" />
    </>
  ),
  jobs: (
    <>
      <path d="M2.5 4h1M2.5 8h1M2.5 12h1M6 4h7.5M6 8h7.5M6 12h7.5" />
    </>
  ),
  machines: (
    <>
      <rect x="2.5" y="2.5" width="11" height="4.5" rx="1" />
      <rect x="2.5" y="9" width="11" height="4.5" rx="1" />
      <path d="M5 4.75h.01M5 11.25h.01M8 4.75h3M8 11.25h3" />
    </>
  ),
  menu: (
    <>
      <path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" />
    </>
  ),
  moon: (
    <>
      <path d="M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5Z" />
    </>
  ),
  more: (
    <>
      <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.2" />
    </>
  ),
  move: (
    <>
      <path d="M2 4.5h5.5v7H14M11.5 9l2.5 2.5-2.5 2.5" />
    </>
  ),
  offline: (
    <>
      <path d="M2 2.5 14 13.5M5.3 5.2A7 7 0 0 0 2 7.5M8 4.5c2.3 0 4.4 1 6 3M6.3 9a3 3 0 0 1 3.2-.3M8 12.5h.01" />
    </>
  ),
  pin: (
    <>
      <path d="M5.5 2.5h5M6.5 2.5v4L4 9.5h8l-2.5-3v-4M8 9.5v4" />
    </>
  ),
  play: (
    <>
      <path d="M5 3.5v9l7.5-4.5z" />
    </>
  ),
  plus: (
    <>
      <path d="M8 3v10M3 8h10" />
    </>
  ),
  queue: (
    <>
      <path d="M2.5 3.5h11v3h-11zM2.5 9.5h7M2.5 12.5h5" />
    </>
  ),
  refresh: (
    <>
      <path d="M13 8a5 5 0 1 1-1.5-3.55M13 2.5v2.75h-2.75" />
    </>
  ),
  screen: (
    <>
      <rect x="2" y="3" width="12" height="8" rx="1.25" />
      <path d="M5.5 13.5h5" />
    </>
  ),
  search: (
    <>
      <circle cx="7" cy="7" r="4.25" />
      <path d="m10.25 10.25 3.25 3.25" />
    </>
  ),
  settings: (
    <>
      <path d="M2.5 5h6M12.5 5h1M2.5 11h1M7.5 11h6" />
      <circle cx="10.5" cy="5" r="1.75" />
      <circle cx="5.5" cy="11" r="1.75" />
    </>
  ),
  sidebar: (
    <>
      <rect x="2.5" y="3" width="11" height="10" rx="1.5" />
      <path d="M6.5 3v10" />
    </>
  ),
  stop: (
    <>
      <rect x="3.5" y="3.5" width="9" height="9" rx="1.5" />
    </>
  ),
  sun: (
    <>
      <circle cx="8" cy="8" r="2.75" />
      <path d="M8 1.75v1.5M8 12.75v1.5M1.75 8h1.5M12.75 8h1.5M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1" />
    </>
  ),
  tag: (
    <>
      <path d="M2.5 2.5h5L13.5 8.5l-5 5-6-6zM5.25 5.25h.01" />
    </>
  ),
  up: (
    <>
      <path d="M8 13V3.5M4.5 7 8 3.5 11.5 7" />
    </>
  ),
  warning: (
    <>
      <path d="M8 2.5 14.25 13.5H1.75zM8 6.5v3.25M8 11.75h.01" />
    </>
  ),
  close: (
    <>
      <path d="m4 4 8 8M12 4l-8 8" />
    </>
  ),
} satisfies Record<string, ReactElement>;

export type IconName = keyof typeof SHAPES;

interface IconProps {
  name: IconName;
  size?: 12 | 14 | 16;
}

export function Icon({ name, size = 16 }: IconProps) {
  return (
    <svg className={size === 16 ? "i" : `i i-${size}`} viewBox="0 0 16 16" aria-hidden="true">
      {SHAPES[name]}
    </svg>
  );
}
